#include "trainer/data/image/sequential_entropy_decoder.h"

#include <limits>

extern "C" {
#define JPEG_INTERNALS  // declares boolean's counterpart, which jpegint.h needs
#include <jpegint.h>
}

namespace rollcall::data {
namespace {

/// Whether libjpeg decodes the coefficients while it transforms them, and Huffman codes of 8-bit samples.
bool is_sequential(jpeg_decompress_struct& libjpeg) {
  return jpeg_has_multiple_scans(&libjpeg) == FALSE && libjpeg.progressive_mode == FALSE &&
         libjpeg.arith_code == FALSE && libjpeg.data_precision == 8 && libjpeg.comps_in_scan == libjpeg.num_components;
}

[[noreturn]] void fail(jpeg_decompress_struct& libjpeg, const char* text) {
  JpegErrors::raise(reinterpret_cast<j_common_ptr>(&libjpeg), text);
}

}  // namespace

void SequentialEntropyDecoder::attach(jpeg_decompress_struct& decompressor, ColumnRange needed_mcus) {
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
  window_.start(data, data + decompressor.src->bytes_in_buffer);
  coded_ = {};
  coded_.stream.next = window_.refill(window_.begin());
  coded_.end = window_.end();
  decompressor.client_data = this;
  decompressor.entropy->decode_mcu = decode_mcu;
}

void SequentialEntropyDecoder::build_skip_tables(const jpeg_decompress_struct& decompressor) {
  for (int i = 0; i < mcu_.block_count; ++i) {
    const int component = decompressor.MCU_membership[i];
    const auto table = static_cast<std::size_t>(decompressor.cur_comp_info[component]->ac_tbl_no);
    skip_tables_[table].build(mcu_.ac_tables[table]);
    block_skips_[static_cast<std::size_t>(i)] = &skip_tables_[table];
  }
}

boolean SequentialEntropyDecoder::decode_mcu(j_decompress_ptr decompressor, JBLOCKROW* blocks) {
  SequentialEntropyDecoder& self = *static_cast<SequentialEntropyDecoder*>(decompressor->client_data);
  CodedBlocks& coded = self.coded_;
  if (self.mcus_to_restart_ == 0) {
    self.begin_interval(*decompressor);
  }
  if (coded.end - coded.stream.next < CodedWindow::kMostMcuBytes && !self.window_.is_complete()) {
    coded.stream.next = self.window_.refill(coded.stream.next);
    coded.end = self.window_.end();
  }
  // Null: a row that is skipped. What libjpeg does not transform, it does not look at.
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

void SequentialEntropyDecoder::begin_interval(jpeg_decompress_struct& decompressor) {
  if (coded_.bits_left() >= 8 || !window_.pass_restart(next_restart_)) {
    fail(decompressor, "Corrupt JPEG data: no restart marker where one must be");
  }
  next_restart_ = (next_restart_ + 1) % 8;
  mcus_to_restart_ = static_cast<int>(decompressor.restart_interval);
  coded_ = {};
  coded_.stream.next = window_.refill(window_.begin());
  coded_.end = window_.end();
}

void SequentialEntropyDecoder::decode(JBLOCKROW* blocks) {
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

void SequentialEntropyDecoder::skip() {
  for (int i = 0; i < mcu_.block_count; ++i) {
    const CodedMcu::Block& kind = mcu_.blocks[static_cast<std::size_t>(i)];
    (void)coded_.decode_dc(kind);
    skip_rest(kind, *block_skips_[static_cast<std::size_t>(i)]);
    coded_.stay_inside();
  }
}

void SequentialEntropyDecoder::skip_rest(const CodedMcu::Block& kind, const SkipTable& skips) {
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

void SequentialEntropyDecoder::hand_back(jpeg_decompress_struct& decompressor) {
  coded_.stream.next = window_.refill(std::min(coded_.stream.next, window_.end()));
  coded_.end = window_.end();
  // libjpeg has up to 64 bits in its hands when it looks for the end's marker; data before that is what it warns of.
  const bool has_more = !window_.is_complete() || coded_.bits_left() >= 64;
  const JOCTET* const rest = window_.file() - (has_more ? 1 : 0);
  decompressor.src->next_input_byte = rest;
  decompressor.src->bytes_in_buffer = static_cast<std::size_t>(window_.file_end() - rest);
}

}  // namespace rollcall::data
