// single_output.cc -- begins and commits one file.
#include <cairn/formats/output/single_output.h>

#include <cairn/io/output_file.h>

#include <string>
#include <vector>

namespace cairn::inline v0 {

SingleOutput::SingleOutput(const distributed::ProcessGroup& group, const OutputPlace& place,
                           std::uint64_t size, IfExists if_exists)
    : if_exists_(if_exists) {
  if (!place.is_local()) {
    output_.emplace(place, std::vector<OutputFile>{{place.path(), size}}, "", if_exists);
    files_.emplace(group, *output_, 0, [&] { output_->begin(); });
    return;
  }
  files_.emplace(group, std::vector<std::string>{place.path()}, [&] {
    lock_.emplace(place.path());
    check_output(place.path(), if_exists);
  });
}

void SingleOutput::commit() {
  if (output_)
    output_->commit();
  else
    files_->temporaries().front().commit_output(if_exists_);
}

}  // namespace cairn::inline v0
