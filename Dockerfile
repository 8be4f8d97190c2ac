# An image that holds the command `cairn` and nothing that built it:
#   docker build -t cairn .
#   docker run --rm -v "$PWD:/data" cairn verify ckpt
# Debian 13, because the zstd of Debian 12 (1.5.4) decodes some damaged data without an error.
FROM debian:trixie AS build
WORKDIR /cairn
# Before the sources, so that a change of those does not install the packages again.
COPY scripts/install-deps.sh scripts/
RUN scripts/install-deps.sh build
COPY . .
RUN scripts/configure.sh static -DCAIRN_WARNINGS_AS_ERRORS=OFF
RUN make static
RUN cmake --install build/release --component static --strip --prefix /installed

FROM debian:trixie-slim
COPY --from=build /installed /usr/local
WORKDIR /data
ENTRYPOINT ["cairn"]
