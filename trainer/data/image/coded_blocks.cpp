#include "trainer/data/image/coded_blocks.h"

namespace rollcall::data {

void CodedMcu::describe(const jpeg_decompress_struct& decompressor) {
  block_count = decompressor.blocks_in_MCU;
  for (int i = 0; i < block_count; ++i) {
    const int component = decompressor.MCU_membership[i];
    const jpeg_component_info& info = *decompressor.cur_comp_info[component];
    const auto dc = static_cast<std::size_t>(info.dc_tbl_no);
    const auto ac = static_cast<std::size_t>(info.ac_tbl_no);
    dc_tables[dc].build(*decompressor.dc_huff_tbl_ptrs[dc], HuffmanTable::Kind::Dc);  // not anew for every block
    ac_tables[ac].build(*decompressor.ac_huff_tbl_ptrs[ac], HuffmanTable::Kind::Ac);
    blocks[static_cast<std::size_t>(i)] = {static_cast<std::size_t>(component), &dc_tables[dc], &ac_tables[ac]};
  }
}

}  // namespace rollcall::data
