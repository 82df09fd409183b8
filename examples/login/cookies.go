package main

import (
	"crypto/rand"
	"net/http"
	"sync"
	"time"
)

// cookie is the value of one that setCookie has set, or empty.
func (s *site) cookie(r *http.Request, name string) string {
	c, err := r.Cookie(s.cookieName(name))
	if err != nil {
		return ""
	}
	return c.Value
}

// setCookie sets one for this host alone, that no script reads and no form of another site sends.
func (s *site) setCookie(w http.ResponseWriter, name, value string, life time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: s.cookieName(name), Value: value, Path: "/", MaxAge: int(life.Seconds()), Secure: s.https, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}

// cookieName has the prefix that keeps other hosts of the domain from setting the cookie. Browsers take it by HTTPS only.
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

// logout leaves the device's cookie: whoever owns the name wants to get in again.
func (s *site) logout(w http.ResponseWriter, r *http.Request) {
	s.sessions.Delete(s.cookie(r, "session"))
	s.setCookie(w, "session", "", -time.Second)
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// sessions are for this demonstration only: a restart ends them, and nothing else but logging out does. Yours are those of your framework.
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
