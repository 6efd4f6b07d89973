#pragma once

#include <cstdio>
#include <string>

namespace rollcall::test {

/// A ustar archive in memory.
class TarWriter {
 public:
  void add(const std::string& name, const std::string& content, char type = '0') {
    std::string header(512, '\0');
    const auto put = [&](std::size_t at, const std::string& text) { header.replace(at, text.size(), text); };
    put(0, name.substr(0, 100));
    put(100, "0000644");
    put(124, octal(content.size(), 11));
    put(148, "        ");
    header[156] = type;
    put(257, std::string("ustar\0", 6) + "00");
    unsigned sum = 0;
    for (const char c : header) {
      sum += static_cast<unsigned char>(c);
    }
    put(148, octal(sum, 6) + std::string("\0 ", 2));
    bytes_ += header + content;
    bytes_.resize((bytes_.size() + 511) / 512 * 512);
  }
  void add_gnu_long(const std::string& name, const std::string& content) {
    add("././@LongLink", name + '\0', 'L');
    add(name, content);
  }
  void add_pax(const std::string& name, const std::string& content) {
    std::string record = " path=" + name + "\n";
    std::size_t length = record.size() + 1;
    while (std::to_string(length).size() + record.size() != length) {
      ++length;
    }
    add("PaxHeaders/x", std::to_string(length) + record, 'x');
    add("short", content);
  }

  [[nodiscard]] std::string finished() const { return bytes_ + std::string(1024, '\0'); }
  [[nodiscard]] const std::string& unfinished() const { return bytes_; }

 private:
  static std::string octal(std::size_t number, int digits) {
    std::string text(32, '\0');
    text.resize(static_cast<std::size_t>(std::snprintf(text.data(), text.size(), "%0*zo", digits, number)));
    return text;
  }

  std::string bytes_;
};

}  // namespace rollcall::test
