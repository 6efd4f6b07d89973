// fmt, compiled once for the version of it that this file is compiled with. fmt as headers alone is compiled again in
// each file that formats anything, 3.5 s a file on the machine where it was measured. fmt's names carry its version, so
// that the system's and the one in LibTorch's wheel can both be in one program.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
#if FMT_VERSION >= 120000
template FMT_API auto locale_ref::get<std::locale>() const -> std::locale;
#endif
namespace detail {

// The templates that fmt's headers declare and define only in the header above.
template FMT_API auto thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
template FMT_API auto decimal_point_impl(locale_ref) -> char;
template FMT_API auto dragonbox::to_decimal(float) noexcept -> dragonbox::decimal_fp<float>;
template FMT_API auto dragonbox::to_decimal(double) noexcept -> dragonbox::decimal_fp<double>;
template FMT_API void buffer<char>::append(const char*, const char*);
#if FMT_VERSION < 120000
template FMT_API auto locale_ref::get<std::locale>() const -> std::locale;
#endif
#if FMT_VERSION < 110000
template FMT_API void vformat_to(buffer<char>&, string_view, basic_format_args<buffer_context<char>>, locale_ref);
#endif

}  // namespace detail
FMT_END_NAMESPACE
