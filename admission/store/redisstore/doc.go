// Package redisstore keeps the counts of admission in Redis 6.2 or newer, or in a Redis Cluster. One Lua script decides a request; lua/
// holds its parts, one file for each algorithm.
//
// It is not named redis, which is the name of the driver's package.
package redisstore
