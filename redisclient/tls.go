package redisclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

// Files are PEM files for connections with TLS. The zero value is usable: the system's authorities, and no client certificate.
type Files struct {
	CA   string // certificates of the authorities that servers must have theirs from; empty: the system's
	Cert string // the client's certificate, with intermediate ones; empty: none
	Key  string // the private key of Cert
}

// dialTLSWithin bounds connections for subscriptions, which have no other timeout.
const dialTLSWithin = 5 * time.Second

// apply makes clients with these settings use the files: for servers, nodes of a cluster and sentinels alike. The files are read again for
// every connection, so that replaced files need no restart. The error is about files that are unusable now. Without TLS nothing happens.
func (f Files) apply(opts *redis.UniversalOptions) error {
	if f == (Files{}) || opts.TLSConfig == nil {
		return nil
	}
	base := opts.TLSConfig
	if _, err := f.config(base); err != nil {
		return err
	}
	opts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		config, err := f.config(base)
		if err != nil {
			return nil, err
		}
		d := tls.Dialer{NetDialer: &net.Dialer{Timeout: dialTLSWithin}, Config: config}
		return d.DialContext(ctx, network, addr)
	}
	return nil
}

// Check returns an error if the files are unusable now.
func (f Files) Check() error {
	_, err := f.config(&tls.Config{MinVersion: tls.VersionTLS12})
	return err
}

// Options returns the settings of ParseURL with the files applied.
func (f Files) Options(url string) (*redis.UniversalOptions, error) {
	opts, err := ParseURL(url)
	if err != nil {
		return nil, err
	}
	return opts, f.apply(opts)
}

// config returns base with the present content of the files.
func (f Files) config(base *tls.Config) (*tls.Config, error) {
	config := base.Clone()
	if f.CA != "" {
		text, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, fmt.Errorf("redisclient: CA file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, errors.New("redisclient: CA file: it must contain certificates in PEM format")
		}
	}
	if f.Cert != "" || f.Key != "" {
		cert, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, fmt.Errorf("redisclient: certificate and key file: %w", err)
		}
		config.Certificates = []tls.Certificate{cert}
	}
	return config, nil
}
