package reports

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/export"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/semaphore"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// office is a folder with a worker, until the returned function is called.
type office struct {
	t         *testing.T
	rdb       *redis.Client
	namespace string
	folder    string
	sem       *semaphore.Semaphore
}

func newOffice(t *testing.T) *office {
	t.Helper()
	opts, err := redis.ParseURL(testenv.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	o := &office{t: t, rdb: redis.NewClient(opts), namespace: strings.ToLower(t.Name() + "-" + rand.Text()[:6]), folder: t.TempDir()}
	t.Cleanup(func() { o.rdb.Close() })
	if o.sem, err = semaphore.New(o.rdb, Semaphore, semaphore.Options{Limit: 1, Namespace: o.namespace}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() { _ = o.sem.Run(ctx) }()
	return o
}

func (o *office) open(from Orders) (closeIt func()) {
	o.t.Helper()
	w, err := NewWorker(WorkerOptions{
		Folder: o.folder, Namespace: o.namespace, Queue: o.rdb, Orders: from, Semaphore: o.sem, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		o.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			o.t.Error(err)
		}
	}
}

func (o *office) ask(sale string) (file string) {
	o.t.Helper()
	file, err := Enqueue(o.t.Context(), o.rdb, o.namespace, sale)
	if err != nil {
		o.t.Fatal(err)
	}
	return file
}

func (o *office) await(what string, is func() bool) {
	o.t.Helper()
	for !is() {
		if o.t.Context().Err() != nil {
			o.t.Fatal(what)
		}
		runtime.Gosched()
	}
}

func (o *office) files() []string {
	entries, err := os.ReadDir(o.folder)
	if err != nil {
		o.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func (o *office) status() semaphore.Status {
	st, err := o.sem.Status(o.t.Context())
	if err != nil {
		o.t.Fatal(err)
	}
	return st
}

func TestFileAppearsWhole(t *testing.T) {
	o := newOffice(t)
	from := &sold{n: 2*export.PageSize + 1, block: make(chan struct{})}
	file := o.ask("concert")
	defer o.open(from)()
	from.block <- struct{}{} // the first page is there
	from.block <- struct{}{}
	if names := o.files(); len(names) != 1 || !strings.HasPrefix(names[0], ".") || o.status().InUse != 1 {
		t.Errorf("%v while it is written", names)
	}
	close(from.block)
	o.await("no file", func() bool { return len(o.files()) == 1 && o.files()[0] == file })
	content, err := os.ReadFile(filepath.Join(o.folder, file))
	if err != nil || strings.Count(string(content), "\n") != from.n+1 {
		t.Errorf("%d bytes, %v", len(content), err)
	}
	o.await("no permit back", func() bool { return o.status().InUse == 0 })
}

// What a stop interrupts is begun anew, and costs no retry.
func TestStopPutsBack(t *testing.T) {
	o := newOffice(t)
	file := o.ask("concert")
	closeIt := o.open(&sold{n: 1, block: make(chan struct{})})
	o.await("not begun", func() bool { return len(o.files()) == 1 })
	closeIt()
	if names := o.files(); len(names) != 0 {
		t.Errorf("%v left over", names)
	}
	inspector := asynq.NewInspectorFromRedisClient(o.rdb)
	tasks, err := inspector.ListRetryTasks(Queue(o.namespace))
	if err != nil || len(tasks) != 1 || tasks[0].Retried != 0 {
		t.Fatalf("%v %v", tasks, err)
	}
	if err := inspector.RunTask(Queue(o.namespace), tasks[0].ID); err != nil {
		t.Fatal(err)
	}
	defer o.open(&sold{n: 1})()
	o.await("no file", func() bool { return len(o.files()) == 1 && o.files()[0] == file })
}

func TestTasksThatCannotBeDone(t *testing.T) {
	o := newOffice(t)
	for _, sale := range []string{"none", "../concert", "a/b"} {
		o.ask(sale)
	}
	defer o.open(&sold{})()
	inspector := asynq.NewInspectorFromRedisClient(o.rdb)
	o.await("not archived", func() bool {
		tasks, err := inspector.ListArchivedTasks(Queue(o.namespace))
		return err == nil && len(tasks) == 3
	})
	if names := o.files(); len(names) != 0 {
		t.Errorf("%v", names)
	}
}

func TestNoFolder(t *testing.T) {
	if _, err := NewWorker(WorkerOptions{Folder: filepath.Join(t.TempDir(), "none")}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
