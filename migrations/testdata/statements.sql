DELETE FROM dead_letters WHERE order_id = $1;

DELETE FROM order_returns WHERE order_id = ANY($1);

DELETE FROM order_units WHERE sale = $1 AND item = $2 AND unit = ANY($3) AND order_id = $4;

DELETE FROM orders WHERE order_id = $1;

DELETE FROM processes WHERE beats_at < now() - $1::interval;

DELETE FROM processes WHERE process = $1;

DELETE FROM recovery_acks WHERE sale = $1 AND epoch <= $2;

INSERT INTO audit_events (id, at, actor, action, target, detail, outcome, request_id) VALUES ($1, $2, $3, $4, $5, $6, $7, $8);

INSERT INTO audit_events (id, at, actor, action, target, detail, outcome, request_id) VALUES ($1, $2, 'ann', 'put-ban', '/v1/bans/user/bob', '', 'done', 'request');

INSERT INTO ban_events (id, at, lifted, kind, value, reason, rule, since, until, times) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (id) DO NOTHING;

INSERT INTO ban_events (id, at, lifted, kind, value, reason, rule, since, until, times) VALUES ($1, $2, $3, 'user', 'ann', '', '', $2, $2, 1);

INSERT INTO dead_letters (order_id, sale, item, payload, reason) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING;

INSERT INTO items (sale, item, stock, quota_per_buyer, quota_ever, in_flight_max) VALUES ($1, $2, $3, $4, $4, $5);

INSERT INTO login_events (id, at, rule, count, action, factor, name_reference, ip_masked, times, shadow) VALUES ($1, $2, 'r', 'ip', 'deny', '', '', '', 1, $3);

INSERT INTO login_events (id, at, rule, count, action, factor, name_reference, ip_masked, until, times, shadow) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT (id) DO NOTHING;

INSERT INTO order_events (at, order_id, status, reason) SELECT coalesce(confirmed_at, accepted_at), order_id, status, reason FROM orders ORDER BY order_id;;

INSERT INTO order_events (order_id, status) VALUES ($1, 'confirmed') RETURNING seq;

INSERT INTO order_events (order_id, status, action, reference) VALUES ($1, $2, $3, $4);

INSERT INTO order_events (order_id, status, reason) SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[]);

INSERT INTO order_returns (order_id, sale, item, epoch, buyer_hash, keyless, quantity, units) SELECT $1, sale, $3, epoch, $4, $5, $6, $7 FROM sales WHERE sale = $2 FOR SHARE ON CONFLICT DO NOTHING;

INSERT INTO order_units (sale, item, unit, order_id) VALUES ($1, $2, $3, gen_random_uuid());

INSERT INTO payments (reference, order_id, action) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING;

INSERT INTO processes (process, beats_at) VALUES ($1, now()) ON CONFLICT (process) DO UPDATE SET beats_at = excluded.beats_at;

INSERT INTO recovery_acks (sale, epoch, process) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING;

INSERT INTO sales (sale, starts_at, ends_at, requires_user, hold_ms, salt) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING;

INSERT INTO semaphores (name) VALUES ($1) ON CONFLICT (name) DO NOTHING;

SELECT 'I10', 'order ' || o.order_id || ' is ' || o.status || ', and its units are on their way back' FROM order_returns r JOIN orders o USING (order_id) WHERE r.sale = $1 AND o.status NOT IN ('cancelled', 'expired', 'rejected') LIMIT $2;

SELECT 'I11', 'order ' || o.order_id || ' is ' || o.status || ', and ' || count(p.reference) || ' payments count for it' FROM orders o LEFT JOIN payments p ON p.order_id = o.order_id AND p.action = 'none' WHERE o.sale = $1 AND (o.status = 'paid' OR p.reference IS NOT NULL) GROUP BY o.order_id HAVING count(p.reference) <> CASE o.status WHEN 'paid' THEN 1 ELSE 0 END LIMIT $2;

SELECT 'I11', 'payment ' || coalesce(p.reference, e.reference) || ' of order ' || o.order_id || CASE WHEN p.reference IS NULL THEN ' is in the feed and not recorded' ELSE ' is recorded, and ' || count(e.seq) || ' times in the feed' END FROM payments p FULL JOIN (SELECT seq, order_id, reference, action FROM order_events WHERE action <> '' AND order_id BETWEEN (SELECT order_id FROM orders WHERE sale = $1 ORDER BY order_id || '' LIMIT 1) AND (SELECT order_id FROM orders WHERE sale = $1 ORDER BY order_id || '' DESC LIMIT 1)) e ON e.reference = p.reference AND e.order_id = p.order_id AND e.action = p.action JOIN orders o ON o.order_id = coalesce(p.order_id, e.order_id) WHERE o.sale = $1 GROUP BY o.order_id, p.reference, e.reference HAVING p.reference IS NULL OR count(e.seq) <> 1 LIMIT $2;

SELECT 'I14', 'order ' || order_id || ' should have expired at ' || to_char(pay_before AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') FROM orders WHERE sale = $1 AND status = 'confirmed' AND pay_before <= now() - $3::interval ORDER BY pay_before LIMIT $2;

SELECT 'I2', 'an event of order ' || order_id || ', which there is not' FROM order_events x WHERE seq >= (SELECT coalesce(min(seq + 0), (SELECT max(seq) FROM order_events)) FROM order_events WHERE order_id BETWEEN (SELECT order_id FROM orders WHERE sale = $1 ORDER BY order_id || '' LIMIT 1) AND (SELECT order_id FROM orders WHERE sale = $1 ORDER BY order_id || '' DESC LIMIT 1)) - 1000 AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.order_id = x.order_id) UNION SELECT 'I2', 'a payment of order ' || order_id || ', which there is not' FROM payments x WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.order_id = x.order_id) UNION SELECT 'I2', 'units come back from order ' || order_id || ', which there is not' FROM order_returns x WHERE sale = $1 AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.order_id = x.order_id) LIMIT $2;

SELECT 1;

SELECT 1 FROM sales WHERE sale = $1 FOR UPDATE;

SELECT 1 FROM sales WHERE sale = ANY($1) ORDER BY sale FOR SHARE;

SELECT CASE WHEN count(*) FILTER (WHERE e.status IN ('cancelled', 'expired')) > 1 THEN 'I10' ELSE 'I9' END, 'order ' || o.order_id || ' is ' || o.status || ', and its events say ' || coalesce(string_agg(e.status, ', ' ORDER BY e.seq), 'nothing') FROM orders o LEFT JOIN order_events e ON e.order_id = o.order_id AND e.action <> 'refund' AND e.order_id BETWEEN (SELECT order_id FROM orders WHERE sale = $1 ORDER BY order_id || '' LIMIT 1) AND (SELECT order_id FROM orders WHERE sale = $1 ORDER BY order_id || '' DESC LIMIT 1) WHERE o.sale = $1 GROUP BY o.order_id HAVING string_agg(e.status, ' ' ORDER BY e.seq) IS DISTINCT FROM CASE WHEN o.status IN ('confirmed', 'rejected') THEN o.status ELSE 'confirmed ' || o.status END LIMIT $2;

SELECT DISTINCT factor FROM login_events WHERE ip_masked = $1 AND action = 'ban';

SELECT EXISTS ( SELECT 1 FROM processes p WHERE beats_at > now() - $3::interval AND NOT EXISTS (SELECT 1 FROM recovery_acks a WHERE a.sale = $1 AND a.epoch = $2 AND a.process = p.process));

SELECT count(*) FROM order_units;

SELECT count(*), count(*) FILTER (WHERE action = 'refund') FROM payments JOIN orders USING (order_id) WHERE sale = $1;

SELECT count(*), count(*) FILTER (WHERE status = 'confirmed' AND pay_before <= now() AND pay_before > now() - $2::interval) FROM orders WHERE sale = $1;

SELECT epoch FROM sales WHERE sale = $1;

SELECT greatest(coalesce(min(pay_before) - now(), $1::interval), interval '0') FROM orders WHERE status = 'confirmed' AND pay_before <= now() + $1::interval;

SELECT last_value, pg_snapshot_xmin(pg_current_snapshot())::text::bigint, (SELECT coalesce(max(seq), 0) FROM order_events WHERE seq <= $1), (SELECT coalesce(max(seq), 0) FROM order_events) FROM order_events_seq_seq;

SELECT order_id, action, status FROM payments JOIN orders USING (order_id) WHERE reference = $1;

SELECT order_id, item, buyer_hash, key_hash, quantity, status, CASE WHEN status IN ('confirmed', 'paid') THEN units ELSE '{}' END, NULL::bytea FROM orders WHERE sale = $1 AND (key_hash IS NOT NULL OR status IN ('confirmed', 'paid')) UNION ALL SELECT order_id, item, '', NULL, 0, 'accepted', '{}', payload FROM dead_letters d WHERE sale = $1 AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.order_id = d.order_id);

SELECT order_id, sale FROM orders WHERE order_id = $1 AND status = 'confirmed' AND pay_before IS NOT NULL FOR UPDATE;

SELECT order_id, sale FROM orders WHERE status = 'confirmed' AND pay_before <= now() ORDER BY pay_before LIMIT $1 FOR UPDATE SKIP LOCKED;

SELECT order_id, sale, item, epoch, buyer_hash, keyless, quantity, units FROM order_returns WHERE $1 = '' OR sale = $1 ORDER BY random() LIMIT $2;

SELECT order_id, status FROM orders WHERE order_id = ANY($1) UNION ALL SELECT order_id, 'accepted' FROM dead_letters WHERE order_id = ANY($1);

SELECT order_id, status, reason FROM orders WHERE order_id = ANY($1);

SELECT payload FROM dead_letters WHERE order_id = $1;

SELECT payload, reason, created_at FROM dead_letters WHERE order_id = $1;

SELECT payload, reason, created_at FROM dead_letters d WHERE order_id > $1 AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.order_id = d.order_id AND status <> 'rejected') ORDER BY order_id LIMIT $2;

SELECT pg_current_xact_id();

SELECT pg_current_xact_id()::text::bigint;

SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0));

SELECT s.sale, switch, starts_at, ends_at, requires_user, hold_ms, salt, epoch, epoch_floor, revision, item, number, stock, quota_per_buyer, quota_ever, in_flight_max FROM sales s JOIN items i USING (sale) WHERE CASE WHEN $1 = '' THEN ends_at > now() - interval '400 days' ELSE s.sale = $1 END ORDER BY s.sale, number;

SELECT sale, epoch_floor, epoch FROM sales WHERE sale = ANY($1) ORDER BY sale FOR SHARE;

SELECT seq, at, order_id, sale, item, buyer, quantity, units, e.status, e.reason, action, reference FROM order_events e JOIN orders USING (order_id) WHERE seq > $1 AND seq <= $2 ORDER BY seq LIMIT $3;

SELECT set_config('idle_in_transaction_session_timeout', $1, true);

SELECT status, status = 'confirmed' AND pay_before IS NOT NULL FROM orders WHERE order_id = $1;

SELECT switch FROM sales WHERE sale = $1 FOR UPDATE;

SELECT unit, order_id FROM order_units WHERE sale = $1 AND item = $2;

UPDATE items SET stock = $3, quota_per_buyer = $4, quota_ever = greatest(quota_ever, $4), in_flight_max = $5 WHERE sale = $1 AND item = $2;

UPDATE orders SET status = 'paid' WHERE order_id = $1 AND status = 'confirmed' AND pay_before IS NOT NULL RETURNING status;

UPDATE sales SET epoch = epoch + 1, revision = nextval('sales_revision') WHERE sale = $1;

UPDATE sales SET epoch_floor = epoch, revision = nextval('sales_revision') WHERE sale = $1 AND epoch = $2;

UPDATE sales SET starts_at = $2, ends_at = $3, requires_user = $4, hold_ms = $5, revision = nextval('sales_revision') WHERE sale = $1;

UPDATE sales SET switch = $2, revision = nextval('sales_revision') WHERE sale = $1;

UPDATE semaphores SET file_limit = $2, file_lease_ms = $3, set_limit = $4, set_lease_ms = $5, set_by = $6, set_at = $7 WHERE name = $1;

UPDATE semaphores SET name = name WHERE name = $1 RETURNING name, file_limit, file_lease_ms, set_limit, set_lease_ms, set_by, set_at;

WITH ended AS ( UPDATE orders o SET status = $2, key_hash = NULLIF(key_hash, '') FROM sales s WHERE o.order_id = ANY($1) AND o.status = 'confirmed' AND o.pay_before IS NOT NULL AND s.sale = o.sale RETURNING o.order_id, o.sale, o.item, s.epoch, o.buyer_hash, o.key_hash IS NULL AS keyless, o.quantity, o.units ), freed AS ( DELETE FROM order_units u USING ended e WHERE u.sale = e.sale AND u.item = e.item AND u.unit = ANY(e.units) AND u.order_id = e.order_id ), told AS ( INSERT INTO order_events (order_id, status) SELECT order_id, $2 FROM ended ) INSERT INTO order_returns (order_id, sale, item, epoch, buyer_hash, keyless, quantity, units) SELECT order_id, sale, item, epoch, buyer_hash, keyless, quantity, units FROM ended RETURNING order_id, sale, item, epoch, buyer_hash, keyless, quantity, units;

WITH written AS ( INSERT INTO orders (order_id, sale, item, buyer, buyer_hash, key_hash, quantity, units, status, reason, epoch, accepted_at, confirmed_at, pay_before) SELECT order_id, sale, item, buyer, buyer_hash, key_hash, quantity, units::integer[], status, reason, b.epoch, accepted_at, CASE WHEN status = 'confirmed' THEN now() END, CASE WHEN status = 'confirmed' AND hold_ms > 0 THEN now() + hold_ms * interval '1 millisecond' END FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::integer[], $8::text[], $9::text[], $10::text[], $11::bigint[], $12::timestamptz[]) AS b (order_id, sale, item, buyer, buyer_hash, key_hash, quantity, units, status, reason, epoch, accepted_at) JOIN sales USING (sale) ORDER BY order_id ON CONFLICT DO NOTHING RETURNING order_id, sale, item ), seated AS ( INSERT INTO order_units (sale, item, unit, order_id) SELECT sale, item, unit, order_id FROM unnest($13::uuid[], $14::integer[]) AS u (order_id, unit) JOIN written USING (order_id) JOIN items USING (sale, item) WHERE unit <= stock ORDER BY sale, item, unit ON CONFLICT DO NOTHING RETURNING order_id, unit ) SELECT order_id, coalesce(array_agg(unit) FILTER (WHERE unit IS NOT NULL), '{}') FROM written LEFT JOIN seated USING (order_id) GROUP BY order_id
