#include "runtime/cli/command.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "runtime/install/hook_program.h"
#include "runtime/install/plan.h"
#include "runtime/install/plugin_file.h"
#include "runtime/install/status.h"
#include "runtime/settings/layers.h"
#include "runtime/settings/site_profile.h"

namespace rollcall::cli {
namespace {

using install::Plan;
using install::PluginFile;
using settings::Kind;
using settings::Setting;

constexpr const char* kProfile = "/etc/rollcall/site.toml";

/// The rows of `rollcall install`; the first kUninstallRows are those of `rollcall uninstall` too.
constexpr std::array kInstallTable{
    Setting{"slurm.conf", Kind::Text, "", "FILE", "The site's slurm.conf, if it is in an unusual place", "Files"},
    Setting{"root", Kind::Text, "", "DIR", "With --site: change files below DIR, which is the image of a node",
            "Files"},
    Setting{"plugin", Kind::Text, "", "FILE",
            "Path of spank_rollcall.so on the nodes. Empty: the one beside rollcall for this Slurm", "Files"},
    Setting{"config-owner", Kind::Text, "", "any|UID",
            "With --site: whose profiles are trusted besides those of root and the plugin's owner", "Files"},
    Setting{"profile", Kind::Text, "", "FILE", "With --site: the profile to install as /etc/rollcall/site.toml",
            "Files"},
};
constexpr std::size_t kUninstallRows = 2;

/// `command` is "install" or "uninstall". Only the first has --status.
Result<void> check_command_line(const CommandContext& context, const std::string& command) {
  const auto given = [&](const char* flag) { return context.line.has(flag) ? 1 : 0; };
  const int ways = given("user") + given("site") + (command == "install" ? given("status") : 0);
  if (ways != 1 || !context.line.positional.empty() || !context.line.program.empty()) {
    return fail(command, context.line.positional.empty() ? "" : context.line.positional.front(),
                "needs one of --user and --site", "rollcall " + command + " --user, or rollcall help " + command);
  }
  return {};
}

std::string this_program() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).string();
}

std::string absolute(const std::string& path) {
  std::error_code error;
  return path.empty() ? path : std::filesystem::absolute(path, error).lexically_normal().string();
}

/// Returns the plugin of --plugin, or the one beside this program, which fits the Slurm in PATH.
Result<PluginFile> checked_plugin(const CommandContext& context, const std::string& slurm_conf,
                                  const install::ImageRoot& root) {
  const std::string named = absolute(context.options.text("plugin"));
  const std::vector<std::string> paths =
      named.empty() ? install::plugins_beside(this_program(), root.lister()) : std::vector{named};
  std::vector<PluginFile> plugins;
  bool exists = false;
  for (const std::string& path : paths) {
    auto bytes = install::read_file(root.on_this_machine(path));
    exists = exists || bytes;
    if (const auto built_for = bytes ? install::plugin_version(*bytes) : std::nullopt) {
      plugins.push_back({path, *std::move(bytes), *built_for});
    }
  }
  if (plugins.empty()) {
    return fail("--plugin", paths.empty() ? "" : root.shown(paths.front()),
                exists ? "is not a SPANK plugin" : "does not exist",
                "--plugin=FILE, a spank_rollcall.so built against this Slurm's headers", ErrorKind::NoInput);
  }
  return install::fitting_plugin(
      plugins, root.is_this_machine() ? install::slurm_version(context.environment, slurm_conf) : std::nullopt);
}

/// Returns the files that Slurm's programs look for beside slurm.conf.
std::vector<std::string> companions_of(const std::string& slurm_conf) {
  std::vector<std::string> names = install::names_in(slurm_conf.substr(0, slurm_conf.rfind('/')));
  const std::string own = slurm_conf.substr(slurm_conf.rfind('/') + 1);
  std::erase_if(names, [&](const std::string& name) {
    const bool wanted = name.ends_with(".conf") || name.ends_with(".d") || name.ends_with(".key");
    return !wanted || name == own || name == "slurm.conf" || name == "plugstack.conf";
  });
  return names;
}

/// Returns `plan`, or an error if a file that was taken as missing cannot be read.
Result<Plan> whole(const install::PlanReader& read, Result<Plan> plan) {
  const Result<void> checked = read.checked();
  return checked ? std::move(plan) : Result<Plan>(checked.error());
}

Result<Plan> user_plan(const CommandContext& context) {
  const Result<std::string> folder = install::user_folder(context.environment);
  const Result<std::string> conf =
      install::site_slurm_conf(context.environment, absolute(context.options.text("slurm.conf")), install::ImageRoot());
  for (const Result<std::string>* const one : {&folder, &conf}) {
    if (!*one) {
      return one->error();
    }
  }
  ASSIGN_OR_RETURN(const PluginFile plugin, checked_plugin(context, *conf, install::ImageRoot()));
  const install::PlanReader read{install::ImageRoot()};
  return whole(read, install::plan_user_install({*folder, *conf, plugin.path, this_program(), companions_of(*conf)},
                                                read, install::read_link, install::names_in));
}

install::ImageRoot root_of(const CommandContext& context) {
  return install::ImageRoot(absolute(context.options.text("root")));
}

Result<install::SiteInput> site_input(const CommandContext& context, const install::PlanReader& read) {
  install::SiteInput input;
  input.root = root_of(context);
  input.profile_path = kProfile;
  ASSIGN_OR_RETURN(const std::string conf,
                   install::site_slurm_conf(context.environment, context.options.text("slurm.conf"), input.root));
  input.slurm_conf = conf;
  input.plugstack = install::plugstack_of(conf, read);
  return input;
}

/// Returns the profile of --profile, checked; nothing where none is given.
Result<std::optional<std::string>> given_profile(const CommandContext& context) {
  std::optional<std::string> text;
  const std::string& profile = context.options.text("profile");
  if (profile.empty()) {
    return text;
  }
  text = install::read_file(profile);
  if (!text) {
    return fail("--profile", profile, "cannot be read", "giving a profile of site_config/", ErrorKind::NoInput);
  }
  settings::Settings check(settings::launch_table());
  RETURN_IF_ERROR(settings::apply_site_profile(check, {"", profile, "--profile"}, {}, {.anybody = true}));
  return text;
}

/// Returns warnings about files that others could change or that users cannot read.
std::vector<std::string> warnings_of(const install::SiteInput& input) {
  std::vector<std::string> lines = install::changeable_by_others(input.plugin, input.root);
  for (const std::string& path : {input.plugin, input.program, input.profile_path, input.slurm_conf, input.plugstack}) {
    for (std::string& line : install::closed_to_users(path, input.root)) {
      if (std::ranges::find(lines, line) == lines.end()) {
        lines.push_back(std::move(line));
      }
    }
  }
  return lines;
}

/// Checks that only its owner, root and `owners` may change a file that is installed as root's, or replace it in the
/// folders above.
Result<void> check_source(const std::string& path, TrustedOwners owners) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    return {};
  }
  owners.users.push_back(status.st_uid);
  return install::check_trusted(absolute(path), install::ImageRoot(), owners, install::Sticky::Closed);
}

/// The parts of the plugin's line that exist already.
struct Present {
  std::vector<std::string> files;  ///< the files from slurm.conf to the line
  std::string program;             ///< rollcall= of the line; empty: the program beside the plugin
};

/// Finds the line. It keeps its config_owner= unless another one is given.
Present present_line(const CommandContext& context, install::SiteInput& input, const install::PlanReader& read) {
  Present present{{input.slurm_conf, input.plugstack}, ""};
  input.config_owner = context.options.text("config-owner");
  for (const install::PluginLine& line : install::plugin_lines(input.plugstack, read, input.root.lister())) {
    present.files.push_back(line.file);
    present.program = line.program;
    input.config_owner = input.config_owner.empty() ? line.config_owner : input.config_owner;
  }
  return present;
}

/// A file of this machine with its content.
struct Source {
  std::string path;
  std::string bytes;
};

/// Returns the program to place beside the plugin: the one that was installed with it, otherwise this one.
Result<Source> program_for(const PluginFile& plugin, const install::ImageRoot& root) {
  const std::optional<std::string> above = install::program_above(plugin.path, root);
  const std::string path = above ? root.on_this_machine(*above) : this_program();
  auto bytes = install::read_file(path);
  if (!bytes) {
    return fail("program", path, "cannot be read", "installing rollcall again", ErrorKind::NoInput);
  }
  const Result<void> fits = install::check_protocols(path, *bytes, root.shown(plugin.path), plugin.bytes);
  return fits ? Result<Source>(Source{path, *std::move(bytes)}) : Result<Source>(fits.error());
}

/// Sets the paths of plugin and program, and their content if they are not in place yet.
void place(const PluginFile& plugin, const Source& program, install::SiteInput& input) {
  const auto missing = [&](const std::string& path, const std::string& bytes) {
    return install::read_file(input.root.on_this_machine(path)) != bytes ? std::optional(bytes) : std::nullopt;
  };
  input.plugin = install::placed_plugin(plugin.path, plugin.built_for, plugin.bytes + program.bytes);
  input.plugin_text = missing(input.plugin, plugin.bytes);
  if (!program.bytes.empty()) {
    input.program = input.plugin.substr(0, input.plugin.rfind('/')) + "/bin/rollcall";
    input.program_text = missing(input.program, program.bytes);
  }
}

/// Refuses files that steps would refuse, both those that are read and those that are written.
Result<void> check_owners(const CommandContext& context, const PluginFile& found, const Source& program,
                          const Present& present, const install::SiteInput& input) {
  const settings::PluginProfile profile = settings::plugin_profile(input.profile_path, input.config_owner);
  if (profile.refusal) {
    return *profile.refusal;
  }
  const TrustedOwners who_chooses = with_owner_of(input.root.on_this_machine(input.slurm_conf), profile.owners);
  Result<void> checked;
  for (const std::string& path :
       {context.options.text("profile"), input.root.on_this_machine(found.path), program.path}) {
    checked = checked ? check_source(path, profile.owners) : checked;
  }
  for (const std::string& path : present.files) {
    checked = checked ? install::check_trusted(path, input.root, who_chooses) : checked;
  }
  for (const std::string& path : {input.profile_path, input.plugin, input.program}) {
    checked = checked ? install::check_trusted(path, input.root, profile.owners) : checked;
  }
  return checked && !present.program.empty()
             ? install::check_program(present.program, input.plugin, found.bytes, profile.owners, input.root)
             : checked;
}

Result<Plan> site_plan(const CommandContext& context, install::SiteInput input, const install::PlanReader& read) {
  ASSIGN_OR_RETURN(input.profile, given_profile(context));
  ASSIGN_OR_RETURN(const PluginFile plugin, checked_plugin(context, input.slurm_conf, input.root));
  const Present present = present_line(context, input, read);
  ASSIGN_OR_RETURN(const Source program, present.program.empty() ? program_for(plugin, input.root) : Source());
  place(plugin, program, input);
  RETURN_IF_ERROR(check_owners(context, plugin, program, present, input));
  Result<Plan> plan = whole(read, install::plan_site_install(input, read, input.root.lister()));
  if (plan) {
    for (const std::string& line : warnings_of(input)) {
      plan->notes.push_back("rollcall: warning: " + line);
    }
  }
  return plan;
}

void print_change(const install::FileChange& change, const install::ImageRoot& root, std::ostream& out, bool dry_run) {
  const char* const would = dry_run ? "would " : "";
  if (change.link_to) {
    out << would << "link " << root.shown(change.path) << " to " << *change.link_to << ": " << change.why << '\n';
  } else if (!change.text) {
    out << would << "remove " << root.shown(change.path) << ": " << change.why << '\n';
  } else {
    out << would << "write " << root.shown(change.path) << ": " << change.why << '\n';
    if (dry_run && !change.executable && !change.path.ends_with(".so")) {
      out << *change.text;
    }
  }
}

Result<void> carry_out(const Plan& plan, const install::ImageRoot& root, CommandContext& context) {
  const bool dry_run = context.line.has("dry-run");
  for (const install::FileChange& change : plan.changes) {
    print_change(change, root, context.out, dry_run);
  }
  if (plan.changes.empty()) {
    context.out << "nothing to do: all is as it should be\n";
  }
  if (!dry_run) {
    RETURN_IF_ERROR(install::apply(plan, root));
  }
  for (const std::string& note : plan.notes) {
    context.out << note << '\n';
  }
  return {};
}

Result<void> carry_out(const Result<Plan>& plan, const install::ImageRoot& root, CommandContext& context) {
  return plan ? carry_out(*plan, root, context) : Result<void>(plan.error());
}

}  // namespace

settings::Table install_table() { return kInstallTable; }

settings::Table uninstall_table() { return install_table().first(kUninstallRows); }

Result<void> run_install(CommandContext& context) {
  RETURN_IF_ERROR(check_command_line(context, "install"));
  if (context.line.has("status")) {
    install::Status status = install::install_status(context.environment);
    if (context.broken_settings) {
      status.problems.push_back(context.broken_settings->text());
    }
    context.out << (context.line.has("json") ? install::status_json(status) : install::status_text(status));
    return {};
  }
  if (context.line.has("user")) {
    return carry_out(user_plan(context), install::ImageRoot(), context);
  }
  const install::PlanReader read(root_of(context));
  const Result<install::SiteInput> input = site_input(context, read);
  return input ? carry_out(site_plan(context, *input, read), input->root, context) : Result<void>(input.error());
}

Result<void> run_uninstall(CommandContext& context) {
  RETURN_IF_ERROR(check_command_line(context, "uninstall"));
  if (context.line.has("site")) {
    const install::PlanReader read(root_of(context));
    const Result<install::SiteInput> input = site_input(context, read);
    return input ? carry_out(whole(read, install::plan_site_uninstall(*input, read)), input->root, context)
                 : Result<void>(input.error());
  }
  const Result<std::string> folder = install::user_folder(context.environment);
  return folder ? carry_out(install::plan_user_uninstall(*folder, install::names_in(*folder), install::read_file,
                                                         install::read_link),
                            install::ImageRoot(), context)
                : Result<void>(folder.error());
}

}  // namespace rollcall::cli
