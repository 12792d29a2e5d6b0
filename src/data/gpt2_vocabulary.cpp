#include "data/gpt2_vocabulary.h"

// The assembler takes the file up as it is: no compiler has to read half a megabyte of numbers.
asm(R"(
    .section .rodata
    .global shoal_gpt2_merges_begin
    .global shoal_gpt2_merges_end
shoal_gpt2_merges_begin:
    .incbin ")" SHOAL_GPT2_MERGES R"("
shoal_gpt2_merges_end:
    .byte 0
    .previous
)");

extern "C" const char shoal_gpt2_merges_begin[], shoal_gpt2_merges_end[];

namespace shoal::data {

std::string_view gpt2_merges() { return {shoal_gpt2_merges_begin, shoal_gpt2_merges_end}; }

}  // namespace shoal::data
