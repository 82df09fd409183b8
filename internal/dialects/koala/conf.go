package koala

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidegate/tidegate/internal/bounded"
)

// A conf is the content of a koala.conf and the files that it includes.
type conf struct {
	files  []string
	values map[string]part
}

// replaced maps each key of Koala's to its replacement here. Only rule_file is used by this program.
var replaced = map[string]string{
	"listen":                  "the endpoints are below /koala of INTERNAL_LISTEN",
	"pid_file":                "use a process manager, and end the program with SIGTERM",
	"policy_loader_frequency": "changed files are read at once",
	"externalConnTimeout":     "slow clients are cut off by fixed limits",
	"externalReadTimeout":     "slow clients are cut off by fixed limits",
	"externalWriteTimeout":    "slow clients are cut off by fixed limits",
	"redis_server":            "set REDIS_URL, such as redis://127.0.0.1:6379",
	"redis_auth":              "put it into REDIS_URL, such as redis://:password@127.0.0.1:6379",
	"redis_pool_maxIdle":      "the pool adapts to the load",
	"redis_pool_idleTimeout":  "the pool adapts to the load",
	"log_notice_file_path":    "the log goes to standard error",
	"log_debug_file_path":     "the log goes to standard error",
	"log_trace_file_path":     "the log goes to standard error",
	"log_fatal_file_path":     "the log goes to standard error",
	"log_warning_file_path":   "the log goes to standard error",
	"log_cron_time":           "rotate the log where you collect standard error",
	"log_file_life_time":      "delete old logs where you collect standard error",
	"log_channel_buff_size":   "log lines are not buffered",
	"log_flush_timer":         "log lines are not buffered",
	"log_debug_open":          "set LOG_LEVEL=debug",
	"log_level":               "set LOG_LEVEL to debug, info, warn or error",
}

// maxIncludes is the maximum depth of nested includes.
const maxIncludes = 16

// maxConfs is the maximum total number of included files, counting repeated ones.
const maxConfs = 100

// read parses a file with lines such as key = value, # comments, and include FILE. Later values override earlier ones.
func (c *conf) read(path string, within []string) error {
	switch {
	case slices.Contains(within, path):
		return errors.New("it includes itself through " + strings.Join(within, ", "))
	case len(within) == maxIncludes:
		return fmt.Errorf("includes must be nested at most %d deep", maxIncludes)
	case len(c.files) == maxConfs:
		return fmt.Errorf("at most %d files may be included", maxConfs)
	}
	src, err := bounded.File(path, maxFile)
	if err != nil {
		return err
	}
	c.files = append(c.files, path)
	lines, err := linesOf(path, src, true) // secret: redis_auth is a password
	if err != nil {
		return err
	}
	for _, l := range lines {
		if l.empty() {
			continue
		}
		p := l.whole()
		key, value, ok := p.cut("=")
		if ok && key.text != "" {
			c.values[key.text] = value
			continue
		}
		words := strings.Fields(p.text)
		if len(words) < 2 || !strings.EqualFold(words[0], "include") {
			return p.wrong("a line must be like key = value, or include FILE")
		}
		file := p.from(len(words[0])).trimmed()
		included := file.text
		if !filepath.IsAbs(included) {
			included = filepath.Join(filepath.Dir(path), included)
		}
		if err := c.read(included, append(within, path)); err != nil {
			return file.wrong("%s cannot be included: %v", file.text, file.named(err))
		}
	}
	return nil
}

// warnings returns warnings about ignored keys, sorted by key.
func (c *conf) warnings() (texts []string) {
	for key, value := range c.values {
		if key == "rule_file" {
			continue
		}
		instead, known := replaced[key]
		if !known {
			instead = "Koala has no such key"
		}
		texts = append(texts, fmt.Sprintf("%s:%d: %s does nothing here: %s", value.line.file, value.line.number, key, instead))
	}
	slices.Sort(texts)
	return texts
}
