// A build without the libraries for WebP, TIFF, GIF and AVIF.
#include <gmock/gmock.h>
#include <string_view>

#include "trainer/data/image/whole_picture.h"

namespace rollcall::data {
namespace {

using std::string_view_literals::operator""sv;
using testing::StartsWith;

TEST(FewFormats, UnsupportedFormatsAreRejectedNamingTheLibrary) {
  for (const auto& [file, name, library] : {std::tuple("RIFF....WEBPVP8 "sv, "WebP", "libwebp-dev"),
                                            {"II*\0\0\0\0\0"sv, "TIFF", "libtiff-dev"},
                                            {"GIF89a.."sv, "GIF", "libgif-dev"},
                                            {"....ftypavif...."sv, "AVIF", "libavif-dev"}}) {
    const OpenedPicture opened = open_whole_picture(std::as_bytes(std::span(file)));
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().kind, ErrorKind::BadData);
    EXPECT_EQ(opened.error().reason, std::string("is a ") + name + " file, which this build cannot read");
    EXPECT_THAT(opened.error().action, StartsWith(std::string("building rollcall with ") + library + " installed"));
  }
}

}  // namespace
}  // namespace rollcall::data
