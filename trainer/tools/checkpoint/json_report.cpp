#include "trainer/tools/checkpoint/json_report.h"

namespace rollcall::checkpoint_tool {

Json tensor_json(const CheckpointTensor& tensor) {
  return {{"name", tensor.name()}, {"path", tensor.path},   {"dtype", checkpoint::format::dtype_name(tensor.dtype)},
          {"shape", tensor.shape}, {"bytes", tensor.bytes}, {"crc32c", tensor.crc32c}};
}

Json value_json(const checkpoint::format::Value& value) {
  return std::visit([](const auto& content) { return Json(content); }, value);
}

Json statistics_json(const Statistics& found) {
  return {{"elements", found.elements}, {"nan", found.nan},
          {"infinite", found.infinite}, {"zeros", found.zeros},
          {"minimum", found.minimum},   {"maximum", found.maximum},
          {"mean", found.mean},         {"deviation", found.deviation}};
}

Json difference_json(const Difference& found) {
  return {{"elements", found.elements},
          {"differing", found.differing},
          {"max_absolute", found.max_absolute},
          {"max_relative", found.max_relative},
          {"mean_absolute", found.mean_absolute}};
}

void print_json(std::ostream& out, std::string_view command, const Json& content) {
  Json whole{{"schema", "rollcall-checkpoint/1"}, {"command", command}};
  whole.update(content);
  out << whole.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
}

}  // namespace rollcall::checkpoint_tool
