#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "trainer/data/jpeg/entropy/coded_blocks.h"
#include "trainer/data/jpeg/entropy_decoder.h"
#include "trainer/data/jpeg/errors.h"
#include "trainer/data/jpeg/markers.h"

extern "C" {
#define JPEG_INTERNALS  // declares boolean's counterpart, which jpegint.h needs
#include <jpegint.h>
}

namespace rollcall::data {
namespace {

/// The coded data of a scan without its stuffed zeros, in pieces, up to the next marker: a restart or the end.
class UnstuffedScan {
 public:
  /// The maximum size of an MCU: D_MAX_BLOCKS_IN_MCU blocks of 64 symbols of 31 bits, and what is read in advance.
  static constexpr std::ptrdiff_t kMostMcuBytes = 2560;

  /// Starts with the bytes after a scan's header, which must stay valid.
  void start(const std::uint8_t* file, const std::uint8_t* file_end);

  /// Keeps the bytes from `next` to end() and appends more; returns the new position of `next`. Afterwards
  /// kMostMcuBytes are available, or is_complete().
  [[nodiscard]] const std::uint8_t* refill(const std::uint8_t* next);

  [[nodiscard]] const std::uint8_t* end() const { return end_; }

  /// Returns whether no data follows end() before the next marker or the file's end.
  [[nodiscard]] bool is_complete() const { return is_complete_; }

  /// Skips the marker after the data if it is restart `number`, 0 to 7; refill(begin()) then returns the data after it.
  /// Returns false for any other marker.
  [[nodiscard]] bool pass_restart(unsigned number);

  [[nodiscard]] const std::uint8_t* begin() const { return bytes_.data(); }

  /// Returns the unread rest of the file; if is_complete(), it begins with the marker.
  [[nodiscard]] const std::uint8_t* file() const { return file_; }
  [[nodiscard]] const std::uint8_t* file_end() const { return file_end_; }

 private:
  void take_prefix();

  static constexpr std::size_t kPiece = std::size_t{12} * 1024;  // a part of the first-level cache

  const std::uint8_t* file_ = nullptr;
  const std::uint8_t* file_end_ = nullptr;
  std::uint8_t* end_ = nullptr;
  bool is_complete_ = false;
  std::array<std::uint8_t, kPiece + kCodedSlack> bytes_;
};

constexpr std::uint8_t kPrefix = 0xff;

/// Returns the position after the prefixes at `byte`: any number of them counts as one.
const std::uint8_t* behind_prefixes(const std::uint8_t* byte, const std::uint8_t* end) {
  return std::find_if(byte, end, [](std::uint8_t value) { return value != kPrefix; });
}

void UnstuffedScan::start(const std::uint8_t* file, const std::uint8_t* file_end) {
  file_ = file;
  file_end_ = file_end;
  end_ = bytes_.data();
  is_complete_ = false;
}

void UnstuffedScan::take_prefix() {
  const std::uint8_t* const next = behind_prefixes(file_, file_end_);
  is_complete_ = next == file_end_ || *next != 0;
  if (!is_complete_) {
    *end_++ = kPrefix;
    file_ = next + 1;
  }
}

const std::uint8_t* UnstuffedScan::refill(const std::uint8_t* next) {
  const std::ptrdiff_t kept = end_ - next;
  std::memmove(bytes_.data(), next, static_cast<std::size_t>(kept));
  end_ = bytes_.data() + kept;
  const std::uint8_t* const limit = bytes_.data() + kPiece;
  while (!is_complete_ && end_ < limit) {
    const auto most = static_cast<std::size_t>(std::min(limit - end_, file_end_ - file_));
    const auto* prefix = static_cast<const std::uint8_t*>(std::memchr(file_, kPrefix, most));
    const std::size_t copied = prefix != nullptr ? static_cast<std::size_t>(prefix - file_) : most;
    std::memcpy(end_, file_, copied);
    end_ += copied;
    file_ += copied;
    if (prefix != nullptr) {
      take_prefix();
    } else {
      is_complete_ = file_ == file_end_;
    }
  }
  if (is_complete_) {
    std::memset(end_, 0, kCodedSlack);
  }
  return bytes_.data();
}

bool UnstuffedScan::pass_restart(unsigned number) {
  const std::uint8_t* const code = behind_prefixes(file_, file_end_);
  if (!is_complete_ || code == file_end_ || *code != static_cast<unsigned>(JpegMarker::Restart0) + number) {
    return false;
  }
  file_ = code + 1;
  end_ = bytes_.data();
  is_complete_ = false;
  return true;
}

/// Returns whether libjpeg decodes the coefficients while it transforms them, and from Huffman codes of 8-bit samples.
bool is_sequential(jpeg_decompress_struct& libjpeg) {
  return jpeg_has_multiple_scans(&libjpeg) == FALSE && libjpeg.progressive_mode == FALSE &&
         libjpeg.arith_code == FALSE && libjpeg.data_precision == 8 && libjpeg.comps_in_scan == libjpeg.num_components;
}

[[noreturn]] void fail(jpeg_decompress_struct& libjpeg, const char* text) {
  JpegErrors::raise(reinterpret_cast<j_common_ptr>(&libjpeg), text);
}

/// Replaces a function in an internal structure of libjpeg (jpegint.h).
class SequentialDecoder final : public EntropyDecoder {
 public:
  void attach(jpeg_decompress_struct& decompressor, ColumnRange needed_mcus) override;
  void read_to_end(jpeg_decompress_struct& decompressor) override;

  [[nodiscard]] bool is_attached() const override { return is_attached_; }

 private:
  static boolean decode_mcu(j_decompress_ptr decompressor, JBLOCKROW* blocks);
  void build_skip_tables(const jpeg_decompress_struct& decompressor);
  void begin_interval(jpeg_decompress_struct& decompressor);
  void decode(JBLOCKROW* blocks);
  void skip();
  void skip_rest(const CodedMcu::Block& kind, const SkipTable& skips);
  void hand_back(jpeg_decompress_struct& decompressor);

  CodedMcu mcu_;
  std::array<SkipTable, NUM_HUFF_TBLS> skip_tables_;
  std::array<const SkipTable*, D_MAX_BLOCKS_IN_MCU> block_skips_ = {};
  UnstuffedScan scan_;
  CodedBlocks coded_;
  ColumnRange needed_;
  int row_mcus_ = 0;
  int column_ = 0;
  int mcus_left_ = 0;
  int mcus_to_restart_ = 0;
  unsigned next_restart_ = 0;
  bool is_attached_ = false;
};

void SequentialDecoder::attach(jpeg_decompress_struct& decompressor, ColumnRange needed_mcus) {
  is_attached_ = is_sequential(decompressor);
  if (!is_attached_) {
    return;
  }
  mcu_.describe(decompressor);
  build_skip_tables(decompressor);
  needed_ = needed_mcus;
  row_mcus_ = static_cast<int>(decompressor.MCUs_per_row);
  column_ = 0;
  mcus_left_ = row_mcus_ * static_cast<int>(decompressor.MCU_rows_in_scan);
  const bool has_restarts = decompressor.restart_interval > 0;
  mcus_to_restart_ = has_restarts ? static_cast<int>(decompressor.restart_interval) : std::numeric_limits<int>::max();
  next_restart_ = 0;
  const JOCTET* const data = decompressor.src->next_input_byte;
  scan_.start(data, data + decompressor.src->bytes_in_buffer);
  coded_ = {};
  coded_.stream.next = scan_.refill(scan_.begin());
  coded_.end = scan_.end();
  decompressor.client_data = this;
  decompressor.entropy->decode_mcu = decode_mcu;
}

void SequentialDecoder::build_skip_tables(const jpeg_decompress_struct& decompressor) {
  for (int i = 0; i < mcu_.block_count; ++i) {
    const int component = decompressor.MCU_membership[i];
    const auto table = static_cast<std::size_t>(decompressor.cur_comp_info[component]->ac_tbl_no);
    skip_tables_[table].build(mcu_.ac_tables[table]);
    block_skips_[static_cast<std::size_t>(i)] = &skip_tables_[table];
  }
}

boolean SequentialDecoder::decode_mcu(j_decompress_ptr decompressor, JBLOCKROW* blocks) {
  SequentialDecoder& self = *static_cast<SequentialDecoder*>(decompressor->client_data);
  CodedBlocks& coded = self.coded_;
  if (self.mcus_to_restart_ == 0) {
    self.begin_interval(*decompressor);
  }
  if (coded.end - coded.stream.next < UnstuffedScan::kMostMcuBytes && !self.scan_.is_complete()) {
    coded.stream.next = self.scan_.refill(coded.stream.next);
    coded.end = self.scan_.end();
  }
  // Null for a skipped row. libjpeg does not read blocks that it does not transform.
  if (blocks != nullptr && self.column_ >= self.needed_.first && self.column_ < self.needed_.end) {
    self.decode(blocks);
  } else {
    self.skip();
  }
  if (coded.is_damaged || coded.bits_left() < 0) [[unlikely]] {
    fail(*decompressor, "Corrupt JPEG data: bad Huffman code or premature end of data segment");
  }
  --self.mcus_to_restart_;
  if (++self.column_ == self.row_mcus_) {
    self.column_ = 0;
  }
  if (--self.mcus_left_ == 0) {
    self.hand_back(*decompressor);
  }
  return TRUE;
}

void SequentialDecoder::read_to_end(jpeg_decompress_struct& decompressor) {
  while (mcus_left_ > 0) {
    decode_mcu(&decompressor, nullptr);
  }
  (*decompressor.inputctl->finish_input_pass)(&decompressor);  // then libjpeg reads markers
  while (decompressor.inputctl->eoi_reached == FALSE) {
    (*decompressor.inputctl->consume_input)(&decompressor);
  }
}

void SequentialDecoder::begin_interval(jpeg_decompress_struct& decompressor) {
  if (coded_.bits_left() >= 8 || !scan_.pass_restart(next_restart_)) {
    fail(decompressor, "Corrupt JPEG data: missing restart marker");
  }
  next_restart_ = (next_restart_ + 1) % 8;
  mcus_to_restart_ = static_cast<int>(decompressor.restart_interval);
  coded_ = {};
  coded_.stream.next = scan_.refill(scan_.begin());
  coded_.end = scan_.end();
}

void SequentialDecoder::decode(JBLOCKROW* blocks) {
  CodedBlocks coded = coded_;  // in registers
  for (int i = 0; i < mcu_.block_count; ++i) {
    const CodedMcu::Block& kind = mcu_.blocks[static_cast<std::size_t>(i)];
    std::int16_t* const block = *blocks[i];  // which libjpeg has cleared
    unsigned place = 1;
    block[0] = coded.decode_dc(kind);
    coded.decode_rest(*kind.ac, block, place);
    coded.stay_inside();
  }
  coded_ = coded;
}

void SequentialDecoder::skip() {
  for (int i = 0; i < mcu_.block_count; ++i) {
    const CodedMcu::Block& kind = mcu_.blocks[static_cast<std::size_t>(i)];
    (void)coded_.decode_dc(kind);
    skip_rest(kind, *block_skips_[static_cast<std::size_t>(i)]);
    coded_.stay_inside();
  }
}

void SequentialDecoder::skip_rest(const CodedMcu::Block& kind, const SkipTable& skips) {
  BitStream& stream = coded_.stream;
  for (unsigned place = 1; place < DCTSIZE2;) {
    stream.refill();
    for (int i = 0; i < kSymbolsOfARefill && place < DCTSIZE2; ++i) {
      const CodedRun run = skips.lookup(stream.bits);
      const unsigned after = place + run.advance;
      if (after < DCTSIZE2) {
        stream.skip(run.bits);
        place = after;
      } else if (after >= CodedRun::kEndsBlock && after < CodedRun::kEndsBlock + DCTSIZE2) {
        stream.skip(run.bits);
        return;
      } else {  // a long symbol, or the block ends before the last of these
        place += coded_.take(*kind.ac).advance;
      }
    }
  }
}

/// Data after an intact picture is foreign; after a picture that flipped bits made shorter it is the rest of its own
/// data. That mostly begins within a byte, whereas an intact picture fills its last byte with ones. libjpeg may hold up
/// to 64 bits and does not warn.
void SequentialDecoder::hand_back(jpeg_decompress_struct& decompressor) {
  const bool has_more = !scan_.is_complete() || coded_.bits_left() >= 64;
  if (has_more && !coded_.is_padded()) {
    fail(decompressor, "Corrupt JPEG data: extra data after the last block");
  }
  decompressor.src->next_input_byte = scan_.file();
  decompressor.src->bytes_in_buffer = static_cast<std::size_t>(scan_.file_end() - scan_.file());
}

}  // namespace

std::unique_ptr<EntropyDecoder> make_sequential_entropy_decoder() { return std::make_unique<SequentialDecoder>(); }

}  // namespace rollcall::data
