FROM golang:1.26.8-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# What --version, metrics, traces and the page show. The repository, which knows it, is not in here.
ARG VERSION=
ARG COMMIT=
ARG DATE=
# Static: an image from scratch has nothing to link with. The time zones of calendar windows are in the programs.
RUN CGO_ENABLED=0 go build -trimpath -ldflags="-s -w -X github.com/tidegate/tidegate/internal/serve.released=$VERSION -X github.com/tidegate/tidegate/internal/serve.commit=$COMMIT -X github.com/tidegate/tidegate/internal/serve.date=$DATE" -o /out/ ./cmd/api ./cmd/worker ./cmd/tidegate \
 && mkdir /data

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build --chown=65532:65532 /data /data
COPY --from=build /out/ /
USER 65532:65532
# Where the embedded server (no REDIS_URL, no DATABASE_URL) keeps what it must not lose: mount a volume here.
ENV TIDEGATE_DATA=/data
EXPOSE 8080 8081 8082
CMD ["/api"]
