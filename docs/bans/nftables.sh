#!/bin/sh
# Tells nftables of bans: nftables.sh ban ADDRESS SECONDS REASON, nftables.sh unban ADDRESS. An address may be a prefix.
#
# All is in a table of its own, inet tidegate, which is made when it is missing: what other rules accept, it still drops. There is a set for
# each length of prefix, in which the kernel ends a ban when it is over. Sets of intervals would not do: they refuse an address
# within a network that is banned already.
set -eu

fail() {
	echo "nftables.sh: $1" >&2
	exit 2
}

number() { # number TEXT: a whole number that test and $(( )) understand
	case $1 in
	'' | *[!0-9]* | 0?* | ???????????*) return 1 ;;
	esac
}

[ $# -ge 2 ] || fail 'usage: nftables.sh ban ADDRESS SECONDS rule|login|operator, or nftables.sh unban ADDRESS'
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

# What is left to nft is whether these characters make an address.
case $2 in
*[!0-9a-f.:/]* | */*/* | -*) fail 'the address is none' ;;
*:*) family=ip6 type=ipv6_addr most=128 ;;
*.*) family=ip type=ipv4_addr most=32 ;;
*) fail 'the address is none' ;;
esac
address=${2%/*} bits=$most
case $2 in
*/*) bits=${2#*/} ;;
esac
number "$bits" && [ "$bits" -gt 0 ] && [ "$bits" -le "$most" ] || fail 'the length of the prefix is none'

# The mask of the prefix, as nft writes it.
mask='' left=$bits
if [ "$family" = ip ]; then
	for _ in 1 2 3 4; do
		n=$((left > 8 ? 8 : left)) left=$((left > 8 ? left - 8 : 0))
		mask=$mask${mask:+.}$((256 - (1 << (8 - n))))
	done
else
	for _ in 1 2 3 4 5 6 7 8; do
		n=$((left > 16 ? 16 : left)) left=$((left > 16 ? left - 16 : 0))
		mask=$mask${mask:+:}$(printf %x $((65536 - (1 << (16 - n)))))
	done
fi

set=${family}_$bits
# Made at the first ban of this length. Drops come before other rules of the input and of what is passed on, to containers for instance.
if ! nft list set inet tidegate "$set" >/dev/null 2>&1; then
	nft -f - <<-END
		add table inet tidegate
		add chain inet tidegate input { type filter hook input priority -10; }
		add chain inet tidegate forward { type filter hook forward priority -10; }
		add set inet tidegate $set { type $type; flags timeout; }
		add rule inet tidegate input $family saddr & $mask @$set drop
		add rule inet tidegate forward $family saddr & $mask @$set drop
	END
fi

# Added first, so that there is something to delete. All or nothing of it happens.
{
	echo "add element inet tidegate $set { $address }"
	echo "delete element inet tidegate $set { $address }"
	if [ "$1" = ban ]; then
		echo "add element inet tidegate $set { $address timeout ${3}s }"
	fi
} | nft -f -
