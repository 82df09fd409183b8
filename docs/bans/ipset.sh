#!/bin/sh
# Tells iptables of bans, by sets: ipset.sh ban ADDRESS SECONDS REASON, ipset.sh unban ADDRESS. An address may be a prefix.
#
# The sets tidegate4 and tidegate6 and the rules that drop what comes from them are made when they are missing. The kernel ends a ban when
# it is over, or after 24 days if it is longer: that is the most that a set can hold.
set -eu

fail() {
	echo "ipset.sh: $1" >&2
	exit 2
}

number() { # number TEXT: a whole number that test and $(( )) understand
	case $1 in
	'' | *[!0-9]* | 0?* | ???????????*) return 1 ;;
	esac
}

[ $# -ge 2 ] || fail 'usage: ipset.sh ban ADDRESS SECONDS rule|login|operator, or ipset.sh unban ADDRESS'
case $1 in
ban)
	[ $# -eq 4 ] || fail 'ban takes an address, seconds and a reason'
	number "$3" && [ "$3" -gt 0 ] || fail 'the seconds are no number'
	case $4 in
	rule | login | operator) ;;
	*) fail 'the reason is none' ;;
	esac
	;;
unban) [ $# -eq 2 ] || fail 'unban takes an address' ;;
*) fail 'the first argument is ban or unban' ;;
esac

# What is left to ipset is whether these characters make an address. One without dots and colons would be a name to look up.
case $2 in
*[!0-9a-f.:/]* | -*) fail 'the address is none' ;;
*:*) set=tidegate6 family=inet6 iptables=ip6tables ;;
*[!0-9./]*) fail 'the address is none' ;;
*.*) set=tidegate4 family=inet iptables=iptables ;;
*) fail 'the address is none' ;;
esac

ipset create -exist "$set" hash:net family "$family" timeout 0 maxelem 1000000
for chain in INPUT FORWARD; do
	"$iptables" -w -C "$chain" -m set --match-set "$set" src -j DROP 2>/dev/null ||
		"$iptables" -w -I "$chain" -m set --match-set "$set" src -j DROP
done

case $1 in
ban)
	most=2147483
	ipset add -exist "$set" "$2" timeout $(($3 > most ? most : $3))
	;;
unban) ipset del -exist "$set" "$2" ;;
esac
