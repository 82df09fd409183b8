// Package bounded reads files and bodies that have a maximum size.
package bounded

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// Read reads r to its end. More than most bytes are an error.
func Read(r io.Reader, most int64) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(content)) > most {
		return nil, tooMany(most)
	}
	return content, err
}

type tooMany int64

func (most tooMany) Error() string { return fmt.Sprintf("has more than %d bytes", int64(most)) }

// File reads a regular file of at most most bytes.
func File(path string, most int64) ([]byte, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", path) // reading a pipe could block
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := Read(f, most)
	if many, ok := errors.AsType[tooMany](err); ok {
		return nil, fmt.Errorf("%s %w", path, many)
	}
	return content, err
}
