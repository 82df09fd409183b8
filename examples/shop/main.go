// Command shop is a shop whose orders are handled by Tidegate: a form to order, and a page that shows an order until it is final. It uses
// only Tidegate's HTTP API; see README.md.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Getenv, os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout io.Writer) error {
	flags := flag.NewFlagSet("shop", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:8090", "where to serve the shop")
	name := flags.String("sale", "shop", "what Tidegate calls the sale; one of 100 units is opened if it is not there")
	item := flags.String("item", "ticket", "what is sold there")
	if err := flags.Parse(args); err != nil {
		return err
	}
	tidegate := newTidegate(cmp.Or(getenv("TIDEGATE_URL"), "http://127.0.0.1:8080"),
		cmp.Or(getenv("TIDEGATE_INTERNAL_URL"), "http://127.0.0.1:8081"), getenv("TIDEGATE_TOKEN"))
	_, err := tidegate.sale(ctx, buyer{}, *name)
	if p := (*problem)(nil); errors.As(err, &p) && p.Reason == "unknown_sale" {
		err = tidegate.putOnSale(ctx, *name, *item, 100)
	}
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", *listen)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: newShop(tidegate, *name, *item), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		IdleTimeout: time.Minute,
	}
	fmt.Fprintf(stdout, "The shop is open: http://%s/\n", listener.Addr())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), wait+5*time.Second)
	defer cancel()
	return server.Shutdown(within) // waiting requests are answered
}
