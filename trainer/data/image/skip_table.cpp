#include "trainer/data/image/skip_table.h"

namespace rollcall::data {
namespace {

/// The symbols that lie wholly in the first kLookupBits of a stream that is zero behind them.
CodedRun run_at(std::uint64_t stream, const HuffmanTable& table) {
  CodedRun run;
  for (;;) {
    const CodedSymbol symbol = table.lookup(stream);
    const bool ends_block = symbol.advance >= CodedSymbol::kEndOfBlock;
    const int advance = run.advance + (ends_block ? CodedRun::kEndsBlock : symbol.advance);
    if (symbol.bits == 0 || run.bits + symbol.bits > SkipTable::kLookupBits ||
        (!ends_block && advance >= CodedRun::kUnknown)) {
      return run.bits == 0 ? CodedRun{0, CodedRun::kUnknown} : run;
    }
    run.bits = static_cast<std::uint8_t>(run.bits + symbol.bits);
    run.advance = static_cast<std::uint8_t>(advance);
    if (ends_block) {
      return run;
    }
    stream <<= symbol.bits;
  }
}

}  // namespace

void SkipTable::build(const HuffmanTable& table) {
  if (generation_ == table.generation()) {
    return;
  }
  generation_ = table.generation();
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    entries_[i] = run_at(static_cast<std::uint64_t>(i) << (64 - kLookupBits), table);
  }
}

}  // namespace rollcall::data
