// verify.cc -- reads every byte of a checkpoint and says what is damaged: verify PATH.
#include <cairn/cairn.h>

#include <cstdio>

int main(int argc, char** argv) try {
  if (argc != 2) return std::fputs("usage: verify PATH\n", stderr), 2;
  const cairn::VerifyReport report = cairn::verify(argv[1]);
  for (const cairn::Finding& finding : report.findings)
    std::printf("%s: %s\n", finding.tensor.empty() ? finding.file.c_str() : finding.tensor.c_str(),
                finding.message.c_str());
  std::printf("%llu tensors, %llu chunks, %llu bytes read\n",
              static_cast<unsigned long long>(report.tensors),
              static_cast<unsigned long long>(report.chunks),
              static_cast<unsigned long long>(report.bytes));
  return report.damaged() ? 1 : 0;
} catch (const cairn::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 3;
}
