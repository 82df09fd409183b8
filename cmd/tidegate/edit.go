package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/tidegate/tidegate/internal/input"
)

func editSaleCommand(getenv func(string) string) *cobra.Command {
	var (
		o    options
		api  = internalAPI{getenv: getenv}
		edit = saleEdit{api: &api, editor: cmp.Or(getenv("VISUAL"), getenv("EDITOR"))}
	)
	cmd := &cobra.Command{
		Use: "edit SALE", Short: "Change a sale in an editor", Args: named, ValidArgsFunction: saleNames.of(&api),
		Long: "Open the definition of a sale in the editor that VISUAL or EDITOR names, show what would change, and change the sale after a " +
			"confirmation. The sale is not changed if somebody else has changed it meanwhile. If it cannot be changed, the edited text stays in " +
			"its file.",
		Example: "  EDITOR=nano tidegate sales edit summer",
		RunE: func(cmd *cobra.Command, args []string) error {
			return edit.run(cmd, args[0], o)
		},
	}
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "edit JSON instead of YAML, and print the API's JSON")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "skip the confirmation")
	addForceFlag(cmd, &edit.force)
	api.addFlags(cmd)
	return cmd
}

// saleEdit changes a sale in an editor.
type saleEdit struct {
	api    *internalAPI
	force  bool   // disrupt the sale if it is open or has orders
	editor string // command with arguments, to which the name of a file is appended; empty: vi, in a terminal
}

func (e *saleEdit) run(cmd *cobra.Command, sale string, o options) (err error) {
	if e.editor == "" {
		if !isTerminal(cmd.InOrStdin()) { // vi would wait for keys for ever
			return errors.New("stdin is not a terminal: EDITOR must name a program that changes a file, such as EDITOR=./raise-stock")
		}
		e.editor = "vi"
	}
	stored, err := e.api.rawSale(cmd.Context(), sale)
	if err != nil {
		return err
	}
	var at struct{ Revision int64 }
	if err := json.Unmarshal(stored, &at); err != nil {
		return fmt.Errorf("unexpected response: %w", err)
	}
	text, err := editable(stored, sale, o.asJSON)
	if err != nil {
		return err
	}
	name := "tidegate-sale-*.yaml"
	if o.asJSON {
		name = "tidegate-sale-*.json"
	}
	file, err := writeTemp(name, text)
	if err != nil {
		return err
	}
	edited := text
	defer func() {
		if err == nil || bytes.Equal(edited, text) {
			_ = os.Remove(file) // a copy of what the server has
			return
		}
		err = fmt.Errorf("%w\nthe edited text is in %s", err, file)
	}()
	interrupted, err := e.open(cmd, file)
	if interrupted {
		cmd.SetContext(context.WithoutCancel(cmd.Context())) // Ctrl-C was for the editor
	}
	if read, unread := os.ReadFile(file); unread == nil {
		edited = read
	} else {
		err = errors.Join(err, unread)
	}
	if err != nil {
		return err
	}
	return e.put(cmd, sale, at.Revision, text, edited, o)
}

// put changes the sale from one text to another, unless they are equal.
func (e *saleEdit) put(cmd *cobra.Command, sale string, revision int64, from, to []byte, o options) error {
	was, _, err := parsed(from)
	if err != nil {
		return err
	}
	is, body, err := parsed(to)
	if err != nil {
		return err
	}
	if was == is {
		_, err := fmt.Fprintln(cmd.ErrOrStderr(), "nothing was changed")
		return err
	}
	for line := range strings.Lines(udiff.Unified("stored", "edited", was, is)) {
		fmt.Fprintln(cmd.ErrOrStderr(), input.Harmless(strings.TrimSuffix(line, "\n")))
	}
	if !o.yes {
		if err := confirm(cmd, "Change sale "+sale+"?"); err != nil {
			return err
		}
	}
	body["revision"] = revision
	answer, err := e.api.sendOrAsk(cmd, o, http.MethodPut, forceQuery(e.force), body, "v1", "sales", sale)
	if err != nil {
		return err
	}
	return apiCall{columns: saleInDetail}.printOne(cmd.OutOrStdout(), answer, o.asJSON)
}

// open runs the editor. interrupted reports whether Ctrl-C was pressed meanwhile, which terminals send to both programs.
func (e *saleEdit) open(cmd *cobra.Command, file string) (interrupted bool, err error) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt) // a second one must not kill this program
	defer signal.Stop(signals)
	words := append(strings.Fields(e.editor), file)
	editor := exec.CommandContext(context.WithoutCancel(cmd.Context()), words[0], words[1:]...)
	editor.Stdin, editor.Stdout, editor.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	if err := editor.Run(); err != nil {
		return false, fmt.Errorf("the editor %s: %w; VISUAL or EDITOR sets another one", e.editor, err)
	}
	return len(signals) > 0, nil
}

// Fields of a sale that PUT does not take.
var (
	notOfDefinition = []string{"sale", "state", "switch", "now", "revision"}
	notOfItem       = []string{"free", "room"}
)

// editable returns the definition of a sale as text.
func editable(sale json.RawMessage, name string, asJSON bool) ([]byte, error) {
	var fields yaml.MapSlice
	if err := yaml.UnmarshalWithOptions(sale, &fields, yaml.UseOrderedMap()); err != nil {
		return nil, fmt.Errorf("unexpected response: %w", err)
	}
	without := func(fields yaml.MapSlice, names []string) yaml.MapSlice {
		return slices.DeleteFunc(fields, func(f yaml.MapItem) bool { return slices.Contains(names, fmt.Sprint(f.Key)) })
	}
	fields = without(fields, notOfDefinition)
	for _, f := range fields {
		items, _ := f.Value.([]any)
		for i := range items {
			if item, ok := items[i].(yaml.MapSlice); ok && f.Key == "items" {
				items[i] = without(item, notOfItem)
			}
		}
	}
	text, err := yaml.Marshal(fields)
	if err != nil {
		return nil, err
	}
	if asJSON {
		if text, err = yaml.YAMLToJSON(text); err != nil {
			return nil, err
		}
		var b bytes.Buffer
		err = json.Indent(&b, text, "", "  ")
		return b.Bytes(), err
	}
	return append([]byte("# Sale "+input.Harmless(name)+". Save and quit to change it.\n"+
		"# Stock can only grow, and no item can be removed.\n"+
		"# A setting that is left out gets its default.\n"), text...), nil
}

// parsed returns the definition in a text, as sorted YAML and as the body of PUT.
func parsed(text []byte) (sorted string, body map[string]any, err error) {
	if err := yaml.Unmarshal(text, &body); err != nil {
		return "", nil, errors.New(harmlessLines(yaml.FormatError(err, false, true)))
	}
	if body == nil {
		return "", nil, errors.New("the text is empty")
	}
	lines, err := yaml.Marshal(body)
	return string(lines), body, err
}

// harmlessLines replaces hostile characters of a text except line breaks.
func harmlessLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(input.Harmless(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// writeTemp writes a temporary file that only this user can read, and returns its name.
func writeTemp(pattern string, text []byte) (name string, err error) {
	f, err := os.CreateTemp("", pattern)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(f, bytes.NewReader(text))
	return f.Name(), errors.Join(err, f.Close())
}
