/*
 * The recovery of a sale that docs/recovery.md describes, as a model for spin. `make model` checks every run of it.
 *
 * World: one item of 2 units; 3 orders of one unit each, of which orders 0 and 1 belong to one buyer, whose quota is 1; two
 * processes that accept orders; two leaders. Each step below is one Redis script, one statement or transaction in the database, or
 * one change in the memory of a process. Between two steps of one participant the others may take any number of steps, so every
 * participant may stop anywhere and continue much later. The lock protects nothing: it only limits how often leaders overtake each other.
 *
 * Faults: at most FAULTS, of any kinds, at any moment. Redis forgets everything, or restarts from an older copy; a leader loses the
 * lock and goes on; a leader's attempt ends; a process stops until its lease has lapsed; a process dies. With -DCOPIES=1, one of the
 * faults may be another one: Redis becomes an older copy of itself and goes on, with the same run id. The copy has the first
 * reservations of the newest epoch. An older one, without the epoch, is as if Redis forgot everything.
 *
 * Properties:
 *   - A promise is kept. An order that was answered 202 becomes a confirmed row as long as one copy of it lives. It may be rejected
 *     only if its process was left out of the hand-over because it was silent, and no unit was left when the order came back.
 *   - The quota holds. (A unit has one order because it is a primary key. The model assumes that.)
 *   - An epoch is loaded once, by one leader, and a fault costs at most one attempt.
 *   - The sale opens again. When nobody can take a step, the sale is open and every promise is a row. Every run ends: a second
 *     search, with one fault less, finds no cycle.
 *
 *   - With -DCOPIES=1: when nobody can take a step, Redis has every order of the database. That is checked while the process that
 *     reserved a missing order had the reply before the fault, and has lived since. Orders that were reserved on the copy by a process that
 *     misses nothing of its own, and the orders missing there meanwhile, may be rejected, or exceed the quota.
 *
 * Not modelled: a database that goes back in time, payments and returns, a growing stock, several items, new sales, repeated requests.
 *
 * -DOLD is the previous rule: a leader raises the epoch unconditionally, and continues in whichever epoch it finds when it reads the
 * sale again. -DWITHOUT=n removes guard n. Guard 14 does nothing without -DCOPIES.
 */
#ifndef FAULTS
#define FAULTS 3
#endif
#ifndef WITHOUT
#define WITHOUT 0
#endif
#define CAS         1 /* step 2 raises the epoch only from the one that step 1 read */
#define LEAD        2 /* step 3 leaves an item alone that the leader of a later epoch has */
#define SEAL        3 /* step 4 closes earlier epochs */
#define SCAN        4 /* step 4 commits the reservations of earlier epochs */
#define ACKS        5 /* step 5 waits for processes that are not silent */
#define LEASE       6 /* step 5: a process promises nothing if its lease lapsed between request and reply */
#define MEMORY      7 /* step 5: a process promises nothing in an epoch before the one that it acknowledged */
#define FLOOR       8 /* step 6: no order is committed below the floor */
#define REJECTION   9 /* step 6: no rejection is committed below the floor */
#define READMIT    10 /* step 8 readmits late orders before the sale opens */
#define OPEN_TOKEN 11 /* step 9 opens the item only for the leader that has it */
#define RUN        12 /* Redis scripts refuse keys that another Redis server wrote */
#define TOKENS     13 /* steps 4, 6, 7 and 10 compare the leader's token too */
#define COUNT      14 /* Redis scripts refuse an item that has fewer writes by the process than it has seen, and the process looks for such items */
#ifdef OLD
#define old 1
#define has(guard) (guard != CAS && guard != LEAD && guard != OPEN_TOKEN && guard != TOKENS)
#else
#define old 0
#define has(guard) (guard != WITHOUT)
#endif
#ifndef COPIES
#define COPIES 0 /* of the faults, so many may be an older copy without a restart */
#endif
#define MUST(condition, otherwise) if :: condition :: else -> printf(otherwise); assert(false) fi

#define EPOCHS 5 /* there is room for so many */
#define ORDERS 3
hidden byte i, j, k;
byte faults = FAULTS;

/* Database. */
#define REJECTED 9
byte epoch = 1, floor = 1, token; /* of the sale; a token is the number of a leader, or 0 when that leader's attempt has ended */
byte row[ORDERS];                 /* by order: 0, its unit, or REJECTED */
bit ack[2];                       /* by process: it acknowledged the epoch */
byte lock;                        /* number of the leader that holds it, or 0 */

/* Redis. */
#define NONE    0 /* 1 and 2: closed by that leader */
#define OPEN    3
#define CLOSED  4 /* by a leader whose attempt has ended */
#define FOREIGN 5 /* written by another server */
#if COPIES
typedef Keys { byte hash, unit[ORDERS], writes, made[3], write[ORDERS], by[ORDERS] }; /* writes: all, and by process; by order: its number and process */
#else
typedef Keys { byte hash, unit[ORDERS] };
#endif
Keys redis[EPOCHS + 1]; /* by epoch: state of the item's hash, and the unit that each order holds there */
byte leadEpoch, leadToken;
#define pending(o)  (redis[1].unit[o] || redis[2].unit[o] || redis[3].unit[o] || redis[4].unit[o] || redis[5].unit[o])
#define taken(e, u) (redis[e].unit[0] == u || redis[e].unit[1] == u || redis[e].unit[2] == u)
#define spare(e)    (!taken(e, 1) -> 1 : (!taken(e, 2) -> 2 : 0))
#define rival(o)    (o < 2 -> 1 - o : o) /* the other order of the buyer */
#define place(e, o) (redis[e].unit[o] || redis[e].unit[rival(o)] == 0 && spare(e))
#if COPIES
byte copies = COPIES;
byte seenIn[3], seen[3]; /* by process: how many writes of its own it has seen, and in which epoch; process 2 is the workers and leaders */
byte number[ORDERS];     /* in the reply that its process is about to get */
byte olderIn, gone;      /* epoch in which Redis became an older copy, and bit set of the orders that the copy lacks */
bit window[ORDERS];      /* reserved on the copy by a process that could not notice, or missing there meanwhile */
bit unseen;              /* no process had seen a write that the copy lacks, or none that lives */
#define misses(p, e)   (seenIn[p] == (e) && seen[p] > redis[e].made[p])
#define behind(p, e)   (has(COUNT) && misses(p, e))
#define intact         (redis[epoch].hash == OPEN && !behind(0, epoch) && !behind(1, epoch) && !behind(2, epoch))
#define in_window(o)   window[o]
#define redis_has(o)   (row[o] == 0 || row[o] == REJECTED || redis[epoch].unit[o] == row[o] || unseen)

inline count(e, o, p) {
	redis[e].writes++; redis[e].made[p]++; redis[e].write[o] = redis[e].writes; redis[e].by[o] = p;
	if
	:: olderIn == e && !misses(p, e) -> window[o] = 1;
		for (j : 0 .. ORDERS - 1) { if :: gone & (1 << j) -> window[j] = 1 :: else fi }
	:: else
	fi
}

inline see(e, n, p) {
	if
	:: seenIn[p] < e -> seenIn[p] = e; seen[p] = n
	:: seenIn[p] == e && seen[p] < n -> seen[p] = n
	:: else
	fi
}

inline clear_counts(e) {
	redis[e].writes = 0;
	for (j : 0 .. ORDERS - 1) { redis[e].write[j] = 0; redis[e].by[j] = 0; redis[e].made[j] = 0 }
}

inline end_counts(e) { /* the keys of earlier epochs are gone */
	for (j : 0 .. 2) { if :: seenIn[j] < e -> seenIn[j] = 0; seen[j] = 0 :: else fi }
	if :: olderIn < e -> olderIn = 0; gone = 0 :: else fi
}
#define SEND(e, o, p)  number[o] = redis[e].made[p]; /* its reply is under way */
#define REPLY(o)       if :: number[o] -> see(in[o], number[o], at[o]) :: else fi; number[o] = 0;
#define NO_REPLY(o)    number[o] = 0;
#define LOSE_REPLY(o)  if :: number[o] -> unseen = 1 :: else fi; number[o] = 0;
#define REPLY_AT_ONCE(e) k = redis[e].made[2]; see(e, k, 2);
#else
#define behind(p, e)     false
#define intact           (redis[epoch].hash == OPEN)
#define in_window(o)     false
#define redis_has(o)     true
#define count(e, o, p)   skip
#define clear_counts(e)  skip
#define end_counts(e)    skip
#define SEND(e, o, p)
#define REPLY(o)
#define NO_REPLY(o)
#define LOSE_REPLY(o)
#define REPLY_AT_ONCE(e)
#endif

/* Orders, and the memory of processes and workers. */
mtype = { NEW, SENT, PROMISED, ORPHANED, UNANSWERED, DONE };
mtype state[ORDERS] = NEW; /* ORPHANED: promised, and its process died. UNANSWERED: it is reserved, and no buyer has an answer. */
byte at[ORDERS];           /* its process */
byte in[ORDERS];           /* epoch of its reservation */
byte unit[ORDERS];         /* that it has there */
bit hand[ORDERS];          /* a worker has it, and Redis lost it */
byte rejecting[ORDERS];    /* epoch in which a worker or leader found no unit for it and is about to commit that */
bit late[ORDERS];          /* it may be rejected */
bit lease[2] = 1;
byte knows[2] = 1;         /* by process: the epoch that it acknowledged last */
#define promised(o) (state[o] == PROMISED || state[o] == ORPHANED)
#define copied(o)   (row[o] == 0 && (state[o] == PROMISED || hand[o] || pending(o)))
#define sold(u)     (row[0] == u || row[1] == u || row[2] == u)
#define current(e)  (floor <= e && e <= epoch)
#define fits(o)     ((current(in[o]) || !has(FLOOR)) && !sold(unit[o])) /* it can be committed as it is */
#define owes(p, o)  (state[o] == PROMISED && at[o] == p && in[o] < epoch && fits(o))

inline reserve(e, o, p) {
	if
	:: redis[e].unit[o]
	:: else -> redis[e].unit[o] = spare(e); count(e, o, p)
	fi;
	in[o] = e; unit[o] = redis[e].unit[o]
}

inline forget(o) { NO_REPLY(o) state[o] = NEW; at[o] = 0; in[o] = 0; unit[o] = 0; late[o] = 0 }

inline abandon(o) { /* the buyer gets no answer; once nothing is left of the order, it is as if it had never been sent */
	if
	:: hand[o] || rejecting[o] || pending(o) -> state[o] = UNANSWERED; at[o] = 0
	:: else -> forget(o)
	fi;
	LOSE_REPLY(o) skip
}

inline commit(o, result) {
	row[o] = result;
	if
	:: result == REJECTED -> printf("order %d is rejected\n", o); MUST(!promised(o) || late[o] || in_window(o), "a promise is broken\n")
	:: else -> printf("order %d is committed with unit %d\n", o, row[o]);
		MUST(rival(o) == o || row[rival(o)] == 0 || row[rival(o)] == REJECTED || in_window(o) || in_window(rival(o)), "the buyer has more than the quota\n")
	fi;
	if :: state[o] == SENT -> REPLY(o) skip :: else fi;
	forget(o); state[o] = DONE; hand[o] = 0
}


/* What happens to an order. By symmetry, order 0 is the first of its buyer, and before a fault it is sent to process 0. */
proctype Order(byte o) {
end:	do
#define RESERVE_AT(e, p) :: d_step { /* reserve.lua; the process may not know the epoch yet */ \
		state[o] == NEW && redis[e].hash == OPEN && place(e, o) && lease[p] && (knows[p] <= e || !has(MEMORY)) && (o != 1 || state[0] != NEW) && !behind(p, e) -> \
		reserve(e, o, p); SEND(e, o, p) state[o] = SENT; at[o] = p; printf("process %d reserves unit %d in epoch %d for order %d\n", p, unit[o], e, o) }
#define RESERVE(e) RESERVE_AT(e, 0) RESERVE_AT(e, (o == 0 && faults == FAULTS -> 0 : 1))
	RESERVE(1) RESERVE(2) RESERVE(3) RESERVE(4) RESERVE(5)
	:: d_step { state[o] == SENT -> state[o] = PROMISED; REPLY(o) printf("process %d answers 202 to order %d\n", at[o], o) }
	:: d_step { copied(o) && fits(o) -> commit(o, unit[o]); skip } /* by a worker, the sweeper, or the process that remembers it */
#define READMIT_TO(e) :: d_step { /* its epoch is over: reserve.lua in an epoch that is open */ \
		copied(o) && !fits(o) && !rejecting[o] && redis[e].hash == OPEN && in[o] < e && !behind(2, e) -> \
		if \
		:: place(e, o) -> reserve(e, o, 2); REPLY_AT_ONCE(e) printf("order %d is readmitted with unit %d in epoch %d\n", o, unit[o], e) \
		:: else -> rejecting[o] = e; printf("there is no unit for order %d in epoch %d\n", o, e) \
		fi }
	READMIT_TO(1) READMIT_TO(2) READMIT_TO(3) READMIT_TO(4) READMIT_TO(5)
#if COPIES
#define other(e)   (!taken(e, 1) && !sold(1) -> 1 : (!taken(e, 2) && !sold(2) -> 2 : 0))
#define REASSIGN(e) :: d_step { /* reassign.lua: its unit is another order's */ \
		copied(o) && sold(unit[o]) && current(e) && !rejecting[o] && redis[e].hash == OPEN && in[o] == e && !behind(2, e) -> \
		if \
		:: other(e) -> redis[e].unit[o] = other(e); unit[o] = redis[e].unit[o]; count(e, o, 2); REPLY_AT_ONCE(e) \
			printf("order %d gets unit %d instead\n", o, unit[o]) \
		:: else -> rejecting[o] = e; hand[o] = 1; printf("there is no other unit for order %d\n", o) \
		fi }
	REASSIGN(1) REASSIGN(2) REASSIGN(3)
#endif
	:: d_step { rejecting[o] ->
		if
		:: row[o] == 0 && (current(rejecting[o]) || !has(REJECTION)) -> commit(o, REJECTED)
		:: else
		fi;
		rejecting[o] = 0 }
	od
}

/* A process that accepts orders. */
proctype Process(byte p) {
end:	do
	:: d_step { /* step 5: each order that it remembers of earlier epochs is a row, or late */
		!ack[p] && floor < epoch && !owes(p, 0) && !owes(p, 1) && !owes(p, 2) -> ack[p] = 1; knows[p] = epoch;
		for (i : 0 .. ORDERS - 1) { if :: state[i] == SENT && at[i] == p && in[i] < epoch && has(MEMORY) -> abandon(i) :: else fi }
		printf("process %d acknowledges epoch %d\n", p, epoch) }
	:: d_step { faults && lease[p] -> faults--; lease[p] = 0;
		for (i : 0 .. ORDERS - 1) { if :: state[i] == SENT && at[i] == p && has(LEASE) -> abandon(i) :: else fi }
		printf("process %d stops, and its lease lapses\n", p) }
	:: d_step { faults && (state[0] == PROMISED && at[0] == p || state[1] == PROMISED && at[1] == p || state[2] == PROMISED && at[2] == p) ->
		faults--; lease[p] = 0; knows[p] = floor; /* of the process that replaces it */
#if COPIES
		seenIn[p] = 0; seen[p] = 0; unseen = 1;
#endif
		for (i : 0 .. ORDERS - 1) {
			if
			:: state[i] == PROMISED && at[i] == p && pending(i) -> state[i] = ORPHANED; at[i] = 0
			:: (state[i] == PROMISED && !pending(i) || state[i] == SENT) && at[i] == p -> abandon(i) /* no copy is left */
			:: else
			fi
		}
		printf("process %d dies\n", p) }
	:: d_step { !lease[p] -> lease[p] = 1; printf("process %d continues\n", p) }
	od
}

byte leads[3];
bit loaded[EPOCHS + 1];
#define mine         leads[me] /* the epoch of the leader's attempt */
#define has_item     (leadToken == me)
#define found_(o)    (found & (1 << o))
#define commits(o)   (found_(o) && copied(o) && fits(o))
#define readmits(o)  (copied(o) && fits(o) && in[o] == mine || rejecting[o] == mine)

inline end_attempt() { /* the next attempt has another token */
	if :: lock == me -> lock = 0 :: else fi;
	if :: token == me -> token = 0 :: else fi;
	if :: leadToken == me -> leadToken = 0 :: else fi;
	for (i : 1 .. EPOCHS) { if :: redis[i].hash == me -> redis[i].hash = CLOSED :: else fi }
	mine = 0; found = 0; left = 0; step = 1
}
#define REFUSED :: else -> printf("leader %d is refused\n", me); end_attempt() fi; skip }

/* Attempts to recover the sale, one after another. By symmetry, leader 1 is the first. */
proctype Leader(byte me) {
	byte step = 1;
	byte found; /* bit set of orders that are uncommitted in earlier epochs, or late */
	byte left;  /* bit set of orders whose processes are left out */
end:	do
	:: d_step { step == 1 && !intact && !lock && (me == 1 || leads[1]) -> /* read */
		lock = me; mine = epoch; step = 2; printf("leader %d locks, and reads epoch %d\n", me, mine) }
	:: d_step { step == 2 -> if /* raise */
		:: epoch == mine || !has(CAS) ->
			mine = (old -> epoch : mine) + 1; epoch = mine; token = me; ack[0] = 0; ack[1] = 0; step = 3;
			printf("leader %d raises the epoch to %d\n", me, mine); MUST(old || epoch <= 1 + FAULTS, "a fault costs two attempts\n")
		REFUSED
	:: d_step { step == 3 -> if /* lead.lua */
		:: old -> step = 4
		:: !old && (leadEpoch < mine || !has(LEAD)) && redis[mine].hash == NONE ->
			leadEpoch = mine; leadToken = me; redis[mine].hash = me; step = 4; printf("leader %d takes the item in epoch %d\n", me, mine)
		REFUSED
	:: d_step { step == 4 -> if /* seal.lua */
		:: has_item || !has(TOKENS) ->
			for (i : 1 .. mine - 1) {
				if :: redis[i].hash != NONE && redis[i].hash != FOREIGN && has(SEAL) -> redis[i].hash = me :: else fi;
				for (j : 0 .. ORDERS - 1) { if :: redis[i].unit[j] && row[j] == 0 && has(SCAN) -> found = found | (1 << j) :: else fi }
			}
			step = 5; printf("leader %d seals the epochs before %d\n", me, mine)
		REFUSED
	:: d_step { step == 5 && (commits(0) || commits(1) || commits(2)) -> /* commit */
		i = (commits(0) -> 0 : (commits(1) -> 1 : 2)); found = found & ~(1 << i); commit(i, unit[i]); skip }
	:: d_step { step == 5 && !commits(0) && !commits(1) && !commits(2) && /* hand-over */
			(epoch != mine || (ack[0] || !lease[0]) && (ack[1] || !lease[1]) || !has(ACKS)) -> if
		:: epoch == mine ->
			for (i : 0 .. ORDERS - 1) { if :: state[i] == PROMISED && !ack[at[i]] && has(ACKS) -> left = left | (1 << i) :: else fi }
			step = 6; printf("leader %d waits for no process\n", me)
		REFUSED
	:: d_step { step == 6 -> if /* floor */
		:: epoch == mine && (token == me || !has(TOKENS)) ->
			for (i : 0 .. ORDERS - 1) {
				if :: state[i] == PROMISED && (left & (1 << i)) -> late[i] = 1 :: else fi;
				if :: state[i] == PROMISED && ack[at[i]] -> found = found | (1 << i) :: else fi
			}
			floor = epoch; ack[0] = 0; ack[1] = 0; left = 0; step = (old -> 0 : 7); printf("leader %d raises the floor to %d\n", me, mine)
		REFUSED
#ifdef OLD
	:: d_step { step == 0 -> mine = epoch; step = 7; printf("leader %d reads the sale again, and continues in epoch %d\n", me, mine) }
#endif
	:: d_step { step == 7 -> if /* load.lua */
		:: has_item || !has(TOKENS) ->
			for (i : 0 .. ORDERS - 1) { redis[mine].unit[i] = (row[i] == REJECTED -> 0 : row[i]) }
			redis[mine].hash = (old -> me : redis[mine].hash); step = 8; printf("leader %d loads epoch %d\n", me, mine);
			MUST(old || !loaded[mine], "an epoch is loaded twice\n"); loaded[mine] = 1
		REFUSED
	:: d_step { step == 8 && found -> i = (found_(0) -> 0 : (found_(1) -> 1 : 2)); found = found & ~(1 << i); if /* readmit */
		:: redis[mine].hash == me && (!copied(i) || rejecting[i])
		:: redis[mine].hash == me && copied(i) && !rejecting[i] && place(mine, i) -> late[i] = 0;
			if :: has(READMIT) -> reserve(mine, i, 2); REPLY_AT_ONCE(mine) printf("leader %d readmits order %d with unit %d\n", me, i, unit[i]) :: else fi
		:: redis[mine].hash == me && copied(i) && !rejecting[i] && !place(mine, i) -> rejecting[i] = (has(READMIT) -> mine : 0)
		REFUSED
	:: d_step { step == 8 && !found && !readmits(0) && !readmits(1) && !readmits(2) -> if /* step 9, open.lua */
		:: has_item && redis[mine].hash == me && !behind(2, mine) ||
		   !has(OPEN_TOKEN) && redis[mine].hash != NONE && redis[mine].hash != FOREIGN && (!old || epoch == mine) ->
			redis[mine].hash = OPEN; step = 10; printf("leader %d opens epoch %d\n", me, mine)
		REFUSED
	:: d_step { step == 10 -> if /* drop.lua */
		:: has_item || !has(TOKENS) ->
			for (i : 1 .. mine - 1) { redis[i].hash = NONE; redis[i].unit[0] = 0; redis[i].unit[1] = 0; redis[i].unit[2] = 0; clear_counts(i) }
			end_counts(mine); end_attempt()
		REFUSED
	:: d_step { step > 2 && faults -> faults--; printf("the attempt of leader %d ends\n", me); end_attempt(); skip }
	od
}

/* Redis loses an order. A worker may have taken it from the queue before. */
#define LOSE(o) if \
	:: !pending(o) || row[o] || state[o] == PROMISED \
	:: pending(o) && !row[o] && state[o] != PROMISED -> hand[o] = 1; if :: state[o] == ORPHANED -> state[o] = UNANSWERED :: else fi \
	:: pending(o) && !row[o] && state[o] != PROMISED && !hand[o] && !rejecting[o] -> if :: state[o] != SENT -> forget(o) :: else fi \
	fi; \
	for (i : 1 .. EPOCHS) { redis[i].unit[o] = 0 }
#define MAY_LOSE(o) if :: pending(o) && !row[o] :: LOSE(o) fi

#if COPIES
#define alive(e) (redis[e].hash != NONE && redis[e].hash != FOREIGN)
#define newest   (alive(5) -> 5 : (alive(4) -> 4 : (alive(3) -> 3 : (alive(2) -> 2 : 1))))
#define MISS(o) if \
	:: redis[newest].unit[o] == 0 || redis[newest].write[o] <= cut \
	:: redis[newest].unit[o] && redis[newest].write[o] > cut -> \
		redis[newest].unit[o] = 0; redis[newest].made[redis[newest].by[o]]--; redis[newest].write[o] = 0; redis[newest].by[o] = 0; \
		if :: olderIn != newest -> olderIn = newest; gone = 0 :: else fi; \
		gone = gone | (1 << o); if :: number[o] -> unseen = 1 :: else fi; \
		if \
		:: pending(o) || row[o] || state[o] == PROMISED \
		:: !pending(o) && !row[o] && state[o] != PROMISED -> hand[o] = 1; if :: state[o] == ORPHANED -> state[o] = UNANSWERED :: else fi \
		:: !pending(o) && !row[o] && state[o] != PROMISED && !hand[o] && !rejecting[o] -> if :: state[o] != SENT -> forget(o) :: else fi \
		fi \
	fi
#endif

proctype Faults() {
#if COPIES
	byte cut;
#endif
end:	do
	:: atomic { faults -> faults--; LOSE(0); LOSE(1); LOSE(2); leadEpoch = 0; leadToken = 0;
		for (i : 1 .. EPOCHS) { redis[i].hash = NONE; clear_counts(i) }
		printf("Redis forgets everything\n") }
	:: atomic { faults -> faults--; MAY_LOSE(0); MAY_LOSE(1); MAY_LOSE(2);
		if /* the leader that the copy names */
		:: true
		:: leadEpoch -> leadEpoch = 0; leadToken = 0
		:: leadToken && leads[3 - leadToken] && leads[3 - leadToken] < leadEpoch -> leadToken = 3 - leadToken; leadEpoch = leads[leadToken]
		fi;
		for (i : 1 .. EPOCHS) { if :: redis[i].hash != NONE && has(RUN) -> redis[i].hash = FOREIGN; clear_counts(i) :: else fi }
		printf("Redis restarts from an older copy\n") }
#if COPIES
	:: atomic { faults && copies && redis[newest].writes -> faults--; copies--; cut = redis[newest].writes - 1;
		do :: cut -> cut-- :: break od;
		MISS(0); MISS(1); MISS(2); redis[newest].writes = cut; printf("Redis becomes an older copy, with the first %d reservations of epoch %d\n", cut, newest); cut = 0 }
#endif
	:: d_step { faults && lock -> faults--; printf("leader %d loses the lock, and goes on\n", lock); lock = 0 }
	od
}

proctype Judge() {
	timeout -> MUST(intact, "the sale stays closed\n"); MUST(!promised(0) && !promised(1) && !promised(2), "a promise is no row\n");
	MUST(redis_has(0) && redis_has(1) && redis_has(2), "Redis lacks an order of the database\n")
}

init {
	atomic {
		redis[1].hash = OPEN;
		run Leader(1); run Leader(2); run Process(0); run Process(1); run Order(0); run Order(1); run Order(2); run Faults(); run Judge()
	}
}
