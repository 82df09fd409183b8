package main

import (
	"crypto/rand"
	"net/http"
	"sync"
	"time"
)

// cookie returns the value of a cookie set by setCookie, or "".
func (s *site) cookie(r *http.Request, name string) string {
	c, err := r.Cookie(s.cookieName(name))
	if err != nil {
		return ""
	}
	return c.Value
}

// setCookie sets a cookie for this host only, which scripts cannot read and forms of other sites do not send.
func (s *site) setCookie(w http.ResponseWriter, name, value string, life time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: s.cookieName(name), Value: value, Path: "/", MaxAge: int(life.Seconds()), Secure: s.https, HttpOnly: true,
		SameSite: http.SameSiteLaxMode,
	})
}

// cookieName adds the prefix that prevents other hosts of the domain from setting the cookie. Browsers accept it only over HTTPS.
func (s *site) cookieName(name string) string {
	if s.https {
		return "__Host-" + name
	}
	return name
}

func (s *site) home(w http.ResponseWriter, r *http.Request) {
	user := s.sessions.user(s.cookie(r, "session"))
	if user == "" {
		http.Redirect(w, r, "/login", http.StatusSeeOther)
		return
	}
	s.show(w, http.StatusOK, view{User: user})
}

// logout keeps the device cookie, which protects the owner's next login.
func (s *site) logout(w http.ResponseWriter, r *http.Request) {
	s.sessions.Delete(s.cookie(r, "session"))
	s.setCookie(w, "session", "", -time.Second)
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// sessions are for this demonstration only: they end with a restart or a logout, and never expire. Use those of your framework.
type sessions struct{ sync.Map }

func (s *sessions) open(name string) (cookie string) {
	cookie = rand.Text()
	s.Store(cookie, name)
	return cookie
}

func (s *sessions) user(cookie string) string {
	name, _ := s.Load(cookie)
	user, _ := name.(string)
	return user
}
