# gradus serve in a container.
#   docker build -t gradus .                                  CPU
#   docker build -t gradus --build-arg DEVICE=cuda .           NVIDIA GPUs (run with --gpus all)
#   docker run -p 8080:8080 -e GRADUS_KEY=$(openssl rand -hex 24) gradus
ARG DEVICE=cpu
FROM rust:1.91-bookworm AS sources
WORKDIR /src
RUN apt-get update && apt-get install -y --no-install-recommends cmake && rm -rf /var/lib/apt/lists/*
COPY . .

FROM sources AS build-cpu
RUN cargo build --release --locked -p gradus && cp target/release/gradus /gradus

FROM sources AS build-cuda
RUN apt-get update && apt-get install -y --no-install-recommends python3-pip && rm -rf /var/lib/apt/lists/*
RUN . scripts/cuda-toolkit.sh /opt/cuda && cargo build --release --locked -p gradus --features cuda && cp target/release/gradus /gradus

FROM build-${DEVICE} AS build

FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home gradus
COPY --from=build /gradus /usr/local/bin/gradus
USER gradus
ENV GRADUS_HOME=/home/gradus/models
# The base of the default PRM, so that the container serves without a network.
RUN gradus models pull smollm2-135m
EXPOSE 8080
HEALTHCHECK CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/8080 && printf 'GET /healthz HTTP/1.0\\r\\nHost: localhost\\r\\n\\r\\n' >&3 && grep -q ' 200 ' <&3"]
ENTRYPOINT ["gradus"]
CMD ["serve", "--listen", "0.0.0.0:8080", "--key-env", "GRADUS_KEY"]
