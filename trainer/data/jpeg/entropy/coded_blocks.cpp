#include "trainer/data/jpeg/entropy/coded_blocks.h"

#include <array>
#include <cstdint>
#include <cstring>

#include "trainer/data/unroll.h"

namespace rollcall::data {
namespace {

/// Maps a coefficient's zigzag index plus one, for any byte, to its index in the rows of the block: see Lane::state.
constexpr std::array<std::uint8_t, 256> places_in_rows() {
  std::array<std::uint8_t, 256> places{};
  places.fill(DCTSIZE2 - 1);
  for (std::size_t i = 0; i < DCTSIZE2; ++i) {
    places[i + 1] = kNaturalOrder[i];
  }
  return places;
}

inline constexpr std::array kPlaceInRows = places_in_rows();

/// Why a lane stopped: the table lacks the next symbol, or the block is complete.
enum class Stop { None, Missed, BlockEnd };

/// The state of the inner loop that decodes blocks, small enough that a processor's registers hold three of them. Each
/// step waits for the previous one, so several lanes in turn take hardly longer than one.
struct Lane {
  std::uint64_t bits = 0;  ///< the next ones, from the top
  /// Lowest byte: 63 minus the number of bits. Second byte: the zigzag index of the last coefficient plus one. A symbol
  /// is added as it is in the table, which counts in both; the effect of its value above them does not matter.
  std::uint32_t state = 63;
  const std::uint8_t* next = nullptr;
  std::int16_t* block = nullptr;  ///< its 64 coefficients, which are zero
  const HuffmanTable* table = nullptr;

  static constexpr std::uint32_t kUsed = 0xff;
  static constexpr std::uint32_t kOnePlace = 0x100;
  static constexpr std::uint32_t kComplete = 0xc000;  ///< the place is 64 or more

  /// Refills to at least 56 bits. Reads 8 bytes.
  ROLLCALL_INLINE void refill() {
    std::uint64_t bytes;
    std::memcpy(&bytes, next, sizeof bytes);
    bits |= __builtin_bswap64(bytes) >> (~state & 63);
    next += (state & kUsed) >> 3;
    state &= ~0xf8U;
  }

  ROLLCALL_INLINE Stop put(std::uint32_t symbol) {
    bits <<= symbol & 63;
    state += symbol;
    block[kPlaceInRows[state >> 8 & 0xff]] = static_cast<std::int16_t>(symbol >> 16);
    return (state & kComplete) != 0 ? Stop::BlockEnd : Stop::None;
  }

  /// Decodes one symbol, up to kSymbolsOfARefill times after a refill.
  ROLLCALL_INLINE Stop step() {
    const std::uint32_t symbol = table->lookup(bits).packed();
    return (symbol & kUsed) != 0 ? put(symbol) : Stop::Missed;
  }

  /// Decodes a block's first coefficient, as the difference from the previous one. Called after a refill.
  ROLLCALL_INLINE void begin_block(std::uint32_t symbol) {
    bits <<= symbol & 63;
    state = ((state + symbol) & kUsed) | kOnePlace;
  }

  /// Returns whether the data ends within the byte of the last code, filled with ones.
  [[nodiscard]] bool ends_properly(const std::uint8_t* end) const {
    const std::ptrdiff_t left = (end - next) * 8 + 63 - static_cast<std::ptrdiff_t>(state & kUsed);
    return left >= 0 && left < 8 && bits >> (64 - 8) >> (8 - left) == (1U << left) - 1;
  }
};

/// The state of a lane between blocks.
struct Progress {
  const CodedTile* tile = nullptr;
  const CodedMcu::Block* kind = nullptr;  ///< the next block's
  int blocks_left = 0;
  bool is_damaged = false;
  std::array<std::uint32_t, MAX_COMPONENTS> last_dc = {};  ///< damaged data may wrap it around
};

/// A lane and its current work.
struct TileLane {
  Lane lane;
  Progress progress;
};

/// Decodes a symbol that the table lacks, which is rare.
ROLLCALL_INLINE std::uint32_t long_symbol(const HuffmanTable& table, std::uint64_t bits, bool& is_damaged) {
  const CodedSymbol symbol = table.search(bits, table.lookup(bits));
  is_damaged |= symbol.bits == 0;
  return symbol.packed();
}

/// The tiles that no lane has taken yet, and the work of lanes between blocks.
class Tiles {
 public:
  Tiles(std::span<const CodedTile> tiles, const CodedMcu& mcu)
      : tiles_(tiles), first_kind_(mcu.blocks.data()), end_of_kinds_(first_kind_ + mcu.block_count) {}

  [[nodiscard]] bool are_sound() const { return are_sound_; }

  /// Returns the first block of the next tile, or a lane without a block if there is none.
  __attribute__((noinline)) Lane start(Progress& progress) {
    while (next_ < tiles_.size() && tiles_[next_].block_count == 0) {
      ++next_;
    }
    Lane lane;
    if (next_ < tiles_.size()) {
      const CodedTile& tile = tiles_[next_++];
      progress = {.tile = &tile, .kind = first_kind_, .blocks_left = tile.block_count};
      lane.next = tile.begin;
      lane.block = tile.blocks;
      begin_block(lane, progress);
    }
    return lane;
  }

  /// Called after a lane has stopped. Returns false if it has nothing more to do.
  ROLLCALL_INLINE bool resume(Stop stop, Lane& lane, Progress& progress) {
    if (stop == Stop::Missed) {
      lane.refill();
      if (lane.put(long_symbol(*lane.table, lane.bits, progress.is_damaged)) != Stop::BlockEnd) {
        return true;
      }
    }
    if (lane.next > progress.tile->end + sizeof(std::uint64_t)) [[unlikely]] {  // stay inside the tile's memory
      lane.next = progress.tile->end;
      progress.is_damaged = true;
    }
    if (--progress.blocks_left == 0) [[unlikely]] {
      finish(lane, progress);
      lane = start(progress);
      return lane.block != nullptr;
    }
    lane.block += DCTSIZE2;
    begin_block(lane, progress);
    return true;
  }

 private:
  ROLLCALL_INLINE void begin_block(Lane& lane, Progress& progress) {
    const CodedMcu::Block& kind = *progress.kind;
    lane.refill();
    std::uint32_t symbol = kind.dc->lookup(lane.bits).packed();
    if ((symbol & Lane::kUsed) == 0) [[unlikely]] {
      symbol = long_symbol(*kind.dc, lane.bits, progress.is_damaged);
    }
    lane.begin_block(symbol);
    lane.table = kind.ac;
    std::uint32_t& dc = progress.last_dc[kind.component];
    dc += symbol >> 16;
    lane.block[0] = static_cast<std::int16_t>(dc);
    progress.kind = &kind + 1 == end_of_kinds_ ? first_kind_ : &kind + 1;
  }

  void finish(const Lane& lane, const Progress& progress) {
    const CodedTile& tile = *progress.tile;
    are_sound_ &= !progress.is_damaged && (!tile.is_whole || lane.ends_properly(tile.end));
  }

  std::span<const CodedTile> tiles_;
  const CodedMcu::Block* first_kind_;
  const CodedMcu::Block* end_of_kinds_;
  std::size_t next_ = 0;
  bool are_sound_ = true;
};

/// The lane that has stopped, and why.
struct Stopped {
  int lane = 0;
  Stop why = Stop::None;
};

ROLLCALL_INLINE Stopped run(Lane& a) {
  for (;;) {
    a.refill();
    ROLLCALL_UNROLL
    for (int i = 0; i < kSymbolsOfARefill; ++i) {
      if (const Stop stop = a.step(); stop != Stop::None) {
        return {0, stop};
      }
    }
  }
}

ROLLCALL_INLINE Stopped run(Lane& a, Lane& b) {
  for (;;) {
    a.refill();
    b.refill();
    ROLLCALL_UNROLL
    for (int i = 0; i < kSymbolsOfARefill; ++i) {
      if (const Stop stop = a.step(); stop != Stop::None) {
        return {0, stop};
      }
      if (const Stop stop = b.step(); stop != Stop::None) {
        return {1, stop};
      }
    }
  }
}

ROLLCALL_INLINE Stopped run(Lane& a, Lane& b, Lane& c) {
  for (;;) {
    a.refill();
    b.refill();
    c.refill();
    ROLLCALL_UNROLL
    for (int i = 0; i < kSymbolsOfARefill; ++i) {
      if (const Stop stop = a.step(); stop != Stop::None) {
        return {0, stop};
      }
      if (const Stop stop = b.step(); stop != Stop::None) {
        return {1, stop};
      }
      if (const Stop stop = c.step(); stop != Stop::None) {
        return {2, stop};
      }
    }
  }
}

// Runs lanes until one of them finds no tile; the others are then the first ones. They are copied, because objects
// behind a reference are not kept in registers.

void work(Tiles& tiles, TileLane& first) {
  Lane a = first.lane;
  while (tiles.resume(run(a).why, a, first.progress)) {
  }
}

void work(Tiles& tiles, TileLane& first, TileLane& second) {
  Lane a = first.lane;
  Lane b = second.lane;
  for (;;) {
    const Stopped stopped = run(a, b);
    if (stopped.lane == 0) {
      if (!tiles.resume(stopped.why, a, first.progress)) {
        first = {b, second.progress};
        return;
      }
    } else if (!tiles.resume(stopped.why, b, second.progress)) {
      first.lane = a;
      return;
    }
  }
}

void work(Tiles& tiles, TileLane& first, TileLane& second, TileLane& third) {
  Lane a = first.lane;
  Lane b = second.lane;
  Lane c = third.lane;
  for (;;) {
    const Stopped stopped = run(a, b, c);
    if (stopped.lane == 0) {
      if (!tiles.resume(stopped.why, a, first.progress)) {
        first = {b, second.progress};
        second = {c, third.progress};
        return;
      }
    } else if (stopped.lane == 1) {
      if (!tiles.resume(stopped.why, b, second.progress)) {
        first.lane = a;
        second = {c, third.progress};
        return;
      }
    } else if (!tiles.resume(stopped.why, c, third.progress)) {
      first.lane = a;
      second.lane = b;
      return;
    }
  }
}

}  // namespace

void CodedMcu::describe(const jpeg_decompress_struct& decompressor) {
  block_count = decompressor.blocks_in_MCU;
  for (int i = 0; i < block_count; ++i) {
    const int component = decompressor.MCU_membership[i];
    const jpeg_component_info& info = *decompressor.cur_comp_info[component];
    const auto dc = static_cast<std::size_t>(info.dc_tbl_no);
    const auto ac = static_cast<std::size_t>(info.ac_tbl_no);
    dc_tables[dc].build(*decompressor.dc_huff_tbl_ptrs[dc], HuffmanTable::Kind::Dc);  // builds each table once
    ac_tables[ac].build(*decompressor.ac_huff_tbl_ptrs[ac], HuffmanTable::Kind::Ac);
    blocks[static_cast<std::size_t>(i)] = {static_cast<std::size_t>(component), &dc_tables[dc], &ac_tables[ac]};
  }
}

bool decode_tiles(std::span<const CodedTile> coded, const CodedMcu& mcu) {
  Tiles tiles(coded, mcu);
  std::array<TileLane, 3> tile_lanes;
  int lanes = 0;
  for (TileLane& next : tile_lanes) {
    next.lane = tiles.start(next.progress);
    lanes += next.lane.block != nullptr ? 1 : 0;
  }
  auto& [first, second, third] = tile_lanes;
  if (lanes > 2) {
    work(tiles, first, second, third);
  }
  if (lanes > 1) {
    work(tiles, first, second);
  }
  if (lanes > 0) {
    work(tiles, first);
  }
  return tiles.are_sound();
}

}  // namespace rollcall::data
