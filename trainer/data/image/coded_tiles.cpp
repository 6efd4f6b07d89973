#include "trainer/data/image/coded_tiles.h"

#include "trainer/data/image/coded_lane.h"

namespace rollcall::data {
namespace {

/// What of a lane is needed between blocks.
struct Progress {
  const CodedTile* tile = nullptr;
  const CodedMcu::Block* kind = nullptr;  ///< the next block's
  int blocks_left = 0;
  bool is_damaged = false;
  std::array<std::uint32_t, MAX_COMPONENTS> last_dc = {};  ///< damaged data may wrap it around
};

struct Worker {
  Lane lane;
  Progress progress;
};

/// The symbol that the table lacks, which is seldom.
ROLLCALL_INLINE std::uint32_t long_symbol(const HuffmanTable& table, std::uint64_t bits, bool& is_damaged) {
  const CodedSymbol symbol = table.search(bits, table.lookup(bits));
  is_damaged |= symbol.bits == 0;
  return symbol.packed();
}

/// The tiles that no lane has taken yet, and what lanes do between blocks.
class Tiles {
 public:
  Tiles(std::span<const CodedTile> tiles, const CodedMcu& mcu)
      : tiles_(tiles), first_kind_(mcu.blocks.data()), end_of_kinds_(first_kind_ + mcu.block_count) {}

  [[nodiscard]] bool are_sound() const { return are_sound_; }

  /// The first block of the next tile; a lane without a block where there is none.
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

  /// After a lane has stopped. False where it has nothing more to do.
  ROLLCALL_INLINE bool resume(Stop stop, Lane& lane, Progress& progress) {
    if (stop == Stop::Missed) {
      lane.refill();
      if (lane.put(long_symbol(*lane.table, lane.bits, progress.is_damaged)) != Stop::BlockEnd) {
        return true;
      }
    }
    if (lane.next > progress.tile->end + sizeof(std::uint64_t)) [[unlikely]] {  // never out of the tile's memory
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

/// Which of some lanes has stopped.
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

// Lanes that run until one of them finds no tile: the others are then the first ones. They are copied, because what a
// reference leads to does not live in registers.

void work(Tiles& tiles, Worker& first) {
  Lane a = first.lane;
  while (tiles.resume(run(a).why, a, first.progress)) {
  }
}

void work(Tiles& tiles, Worker& first, Worker& second) {
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

void work(Tiles& tiles, Worker& first, Worker& second, Worker& third) {
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

bool decode_tiles(std::span<const CodedTile> coded, const CodedMcu& mcu) {
  Tiles tiles(coded, mcu);
  std::array<Worker, 3> workers;
  int lanes = 0;
  for (Worker& worker : workers) {
    worker.lane = tiles.start(worker.progress);
    lanes += worker.lane.block != nullptr ? 1 : 0;
  }
  auto& [first, second, third] = workers;
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
