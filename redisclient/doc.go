// Package redisclient opens Redis clients with the settings that decisions need: short timeouts, because a late decision is
// useless; no retries, because a command that is sent again counts twice; round trips that concurrent callers share; and a
// watcher that detects when Redis was restarted or replaced.
//
//	rdb, err := redisclient.Open("redis://localhost:6379")
//	if err != nil {
//		return err
//	}
//	defer rdb.Close()
//
// Packages admission and semaphore take any client of go-redis, such as rdb or rdb.Batched; package orders takes rdb itself.
package redisclient
