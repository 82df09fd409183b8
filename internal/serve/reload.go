package serve

import (
	"bytes"
	"context"
	"os"
	"strings"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/internal/reload"
	"github.com/tidegate/tidegate/redisclient"
)

// reloads returns the states of all settings that the process reads again while it runs.
func (p *Process) reloads() []reload.State {
	states := make([]reload.State, len(p.Reloaded))
	for i, state := range p.Reloaded {
		states[i] = state()
	}
	return states
}

// outdated names the settings whose file or URL could not be read again.
func (p *Process) outdated() (settings []string) {
	for _, s := range p.reloads() {
		if s.Failed {
			settings = append(settings, s.Setting)
		}
	}
	return settings
}

// rulesReloaded adds the state of rules that a gate follows.
func (p *Process) rulesReloaded(setting string, stats func() admission.Stats) {
	p.Reloaded = append(p.Reloaded, func() reload.State {
		s := stats()
		return reload.State{Setting: setting, Loaded: s.RulesLoaded, Failed: s.RulesFailed}
	})
}

// watchTLS reports files for TLS that became unusable. Connections read them themselves; those that are open do not notice.
func (p *Process) watchTLS(files redisclient.Files) error {
	var settings, paths []string
	for _, f := range [][2]string{{"REDIS_CA_FILE", files.CA}, {"REDIS_CERT_FILE", files.Cert}, {"REDIS_KEY_FILE", files.Key}} {
		if f[1] != "" {
			settings, paths = append(settings, f[0]), append(paths, f[1])
		}
	}
	if paths == nil {
		return nil
	}
	read := func(context.Context) ([]byte, error) {
		var all [][]byte
		for _, path := range paths {
			content, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			all = append(all, content)
		}
		return bytes.Join(all, []byte{0}), nil
	}
	source := reload.New(strings.Join(settings, ", "), p.Log, read, func([]byte) error { return files.Check() })
	if err := source.Load(context.Background()); err != nil {
		return err
	}
	p.Reloaded = append(p.Reloaded, source.State)
	p.Background = append(p.Background, func(ctx context.Context) error { return source.Watch(ctx, paths...) })
	return nil
}
