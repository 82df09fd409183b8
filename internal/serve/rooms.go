package serve

import (
	"context"
	"crypto"
	"fmt"
	"os"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/drand"
	"github.com/tidegate/tidegate/waitingroom"
)

// addRooms adds the waiting rooms to a process.
func (p *Process) addRooms(cfg *config.Config, h *HTTP, gate *admission.Gate) (*waitingroom.Service, error) {
	signer, err := passKey(cfg.PassKeyFile)
	if err != nil {
		return nil, wrap("PASS_KEY_FILE", err)
	}
	before, err := passKey(cfg.PassKeyBefore)
	if err != nil {
		return nil, wrap("PASS_KEY_FILE_PREVIOUS", err)
	}
	changes := newRoomChanges(h.Redis.Decisions.UniversalClient, cfg.Namespace, p.Log)
	rooms := waitingroom.New(h.Rooms, waitingroom.Options{
		Changed: changes.notify,
		Secret:  []byte(cfg.Secret), PreviousSecret: []byte(cfg.PreviousSecret), Signer: signer, PreviousSigner: before,
		Stock: h.Orders.RoomStock(), Logger: p.Log,
		KeepAfterEnd: time.Duration(cfg.RoomDays) * 24 * time.Hour,
		Beacon: func(ctx context.Context, round int64) (signature string, err error) {
			return drand.Quicknet.Fetch(ctx, cfg.DrandRelays, round)
		},
		Banned: func(user string) (why, by string) {
			ban, _, banned := gate.Banned(admission.Request{User: user})
			switch {
			case !banned:
				return "", ""
			case ban.Rule != "":
				by = "rule " + ban.Rule
			default:
				by = "operator: " + ban.Reason
			}
			return string(admission.Banned), by // the operator's own words are not for the visitor
		},
	})
	p.Background = append(p.Background, rooms.Run, changes.publish, func(ctx context.Context) error { return changes.listen(ctx, rooms.Wake) })
	return rooms, nil
}

// passKey reads the private key of passes; nil: there is no file.
func passKey(path string) (crypto.Signer, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	key, err := waitingroom.ParseSigner(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}
