package waitingroom

import (
	"net"
	"net/url"
	"strings"
)

// Page is what the built-in page of a room shows, and where it leads. URLs begin with https://, or with / on the origin of the
// page; for trying it out also with http:// and a loopback host.
type Page struct {
	Title       string `json:"title,omitempty"`        // up to 200 characters; empty: the item or the room
	Shop        string `json:"shop,omitempty"`         // name, up to 200 characters
	LogoURL     string `json:"logo_url,omitempty"`     // an image
	ContinueURL string `json:"continue_url,omitempty"` // where an admitted visitor goes on; a room without one has no page
	SignInURL   string `json:"sign_in_url,omitempty"`  // where visitors go who are not known
}

const (
	maxTitle = 200  // characters
	maxURL   = 2000 // characters
)

// validate returns an ErrInvalid for a page that cannot be stored.
func (p *Page) validate() error {
	for _, text := range [][2]string{{"title", p.Title}, {"shop", p.Shop}} {
		if err := checkText(text[0], text[1], maxTitle); err != nil {
			return err
		}
	}
	for _, link := range [][2]string{{"logo_url", p.LogoURL}, {"continue_url", p.ContinueURL}, {"sign_in_url", p.SignInURL}} {
		if err := checkText(link[0], link[1], maxURL); err != nil {
			return err
		}
		if link[1] != "" && !isLink(link[1]) {
			return invalid(link[0], "begin with https://, or with / for a path on the origin of the page, got %.300q", link[1])
		}
	}
	return nil
}

// isLink reports whether a page may lead to a URL.
func isLink(text string) bool {
	u, err := url.Parse(text)
	switch {
	case err != nil || strings.Contains(text, `\`) || u.User != nil:
		return false
	case u.Scheme == "https":
		return u.Host != ""
	case u.Scheme == "http":
		ip := net.ParseIP(u.Hostname())
		return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	}
	return u.Scheme == "" && u.Host == "" && strings.HasPrefix(text, "/") && !strings.HasPrefix(text, "//")
}
