// Package rules defines what is limited. A [Set] is made of typed rules by [Of], or read from YAML by [Parse] and [Load]; [Live]
// follows its files. The gate of package admission asks it for the [Plan] of each request.
//
//	rules.Of(rules.Rule{Name: "api", Subject: rules.User, Limit: 100, Window: time.Minute})
//
// is the same as
//
//	version: 1
//	rules:
//	- {name: api, subject: user, limit: 100, window: 1m}
//
// A rules file also has the sections `semaphores`, `login` and the firewall's part of `bans`. Parse and Load keep them in the [Set] for the
// packages that use them. They check the sections that the caller passes, such as login.Section, so that a file is accepted or rejected as
// a whole; the programs of this module pass all. A section that is not passed is checked by its package when it is used.
package rules
