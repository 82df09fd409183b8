package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// runtimeStage is the image's part of the Dockerfile. The released image takes it from there, so that both run alike.
type runtimeStage struct {
	toolchain string // of the build stage, such as go1.26.8
	config    v1.Config
}

// copied are the COPY instructions of the last stage that layers copies.
var copied = []string{
	"COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/",
	"COPY --from=build --chown=65532:65532 /data /data",
	"COPY --from=build /out/ /",
}

// parseDockerfile reads the last stage, and refuses what the released image would lack.
func parseDockerfile(text string) (runtimeStage, error) {
	var s runtimeStage
	if _, after, ok := strings.Cut(text, "FROM golang:"); ok {
		version, _, _ := strings.Cut(after, "-")
		s.toolchain = "go" + version
	}
	_, last, ok := strings.Cut(text, "\nFROM scratch\n")
	if !ok {
		return s, errors.New(`the last stage must be "FROM scratch"`)
	}
	var copies []string
	for line := range strings.Lines(last) {
		line = strings.TrimSpace(line)
		instruction, value, _ := strings.Cut(line, " ")
		var err error
		switch instruction {
		case "", "#":
		case "COPY":
			copies = append(copies, line)
		case "USER":
			s.config.User = value
		case "ENV":
			s.config.Env = append(s.config.Env, value)
		case "EXPOSE":
			s.config.ExposedPorts = map[string]struct{}{}
			for port := range strings.FieldsSeq(value) {
				s.config.ExposedPorts[port+"/tcp"] = struct{}{}
			}
		case "CMD":
			err = json.Unmarshal([]byte(value), &s.config.Cmd)
		default:
			err = errors.New("tools/release does not support it")
		}
		if err != nil {
			return s, fmt.Errorf("%q: %w", line, err)
		}
	}
	if got, want := strings.Join(copies, "\n"), strings.Join(copied, "\n"); got != want {
		return s, fmt.Errorf("tools/release copies other files: change both; it has\n%s\ngot\n%s", want, got)
	}
	return s, nil
}
