# An image that holds the command `cairn` and nothing that built it:
#   docker build -t cairn .
#   docker run --rm -v "$PWD:/data" cairn verify ckpt
FROM debian:bookworm AS build
WORKDIR /cairn
# Before the sources, so that a change of those does not install the packages again.
COPY scripts/install-deps.sh scripts/
RUN scripts/install-deps.sh build
COPY . .
RUN make static
RUN cmake --install build/release --component static --strip --prefix /installed

FROM debian:bookworm-slim
COPY --from=build /installed /usr/local
WORKDIR /data
ENTRYPOINT ["cairn"]
