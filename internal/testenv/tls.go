package testenv

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// An Authority issues certificates for one test. It is not safe for concurrent use.
type Authority struct {
	CAFile string // its certificate
	t      testing.TB
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	issued int64
}

// NewAuthority makes an authority with a key of its own.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{CAFile: filepath.Join(t.TempDir(), "ca.pem"), t: t, cert: &x509.Certificate{
		Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	a.key = a.issue(a.cert, a.CAFile, filepath.Join(t.TempDir(), "ca.key"))
	return a
}

// Issue writes a certificate for 127.0.0.1, for servers and clients, and its key into files.
func (a *Authority) Issue(certFile, keyFile string) {
	a.t.Helper()
	a.issue(&x509.Certificate{Subject: pkix.Name{CommonName: "test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, certFile, keyFile)
}

// issue completes and signs a certificate: with the authority's key, or, as long as it has none, with the certificate's own.
func (a *Authority) issue(cert *x509.Certificate, certFile, keyFile string) *ecdsa.PrivateKey {
	a.t.Helper()
	must := func(err error) {
		if err != nil {
			a.t.Helper()
			a.t.Fatalf("testenv: certificate: %v", err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	signer := a.key
	if signer == nil {
		signer = key
	}
	a.issued++
	cert.SerialNumber, cert.NotBefore, cert.NotAfter = big.NewInt(a.issued), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, &key.PublicKey, signer)
	must(err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	must(err)
	for file, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: der},
		keyFile:  {Type: "PRIVATE KEY", Bytes: secret},
	} {
		must(os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	}
	return key
}

// StartTLSRedis starts a Redis that requires certificates of the authority from its clients, and returns it with its rediss:// URL.
func StartTLSRedis(t testing.TB, a *Authority) (server *RedisServer, url string) {
	t.Helper()
	cert, key, port := filepath.Join(t.TempDir(), "redis.pem"), filepath.Join(t.TempDir(), "redis.key"), strconv.Itoa(freePort())
	a.Issue(cert, key)
	server = StartRedis(t, "--tls-port", port, "--tls-auth-clients", "yes", "--tls-ca-cert-file", a.CAFile, "--tls-cert-file", cert,
		"--tls-key-file", key)
	return server, "rediss://" + net.JoinHostPort("127.0.0.1", port)
}
