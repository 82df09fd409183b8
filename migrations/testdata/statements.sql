DELETE FROM dead_letters WHERE order_id = $1;

DELETE FROM order_returns WHERE order_id = ANY($1);

DELETE FROM order_units u USING unnest($1::text[], $2::text[], $3::integer[], $4::uuid[]) AS k (sale, item, unit, order_id) WHERE u.sale = k.sale AND u.item = k.item AND u.unit = k.unit AND u.order_id = k.order_id;

DELETE FROM orders WHERE order_id = ANY($1);

DELETE FROM payments;

DELETE FROM processes WHERE process = $1;

DELETE FROM processes WHERE process = $1 AND beats::text = $2;

DELETE FROM recovery_acks WHERE sale = $1 AND epoch <= $2;

DELETE FROM recovery_late WHERE order_id = ANY($1);

INSERT INTO audit_events (id, at, actor, action, target, detail, outcome, request_id) VALUES ($1, $2, $3, $4, $5, $6, $7, $8);

INSERT INTO audit_events (id, at, actor, action, target, detail, outcome, request_id) VALUES ($1, $2, 'ann', 'put-ban', '/v1/bans/user/bob', '', 'done', 'request');

INSERT INTO ban_events (id, at, lifted, kind, value, reason, rule, since, until, times) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (id) DO NOTHING;

INSERT INTO ban_events (id, at, lifted, kind, value, reason, rule, since, until, times) VALUES ($1, $2, $3, 'user', 'ann', '', '', $2, $2, 1);

INSERT INTO dead_letters (order_id, sale, item, payload, reason) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING;

INSERT INTO installation (namespace, system_identifier, database_oid) VALUES ($1, nullif($2, 0::bigint), $3) ON CONFLICT (one) DO UPDATE SET id = excluded.id, namespace = excluded.namespace, system_identifier = excluded.system_identifier, database_oid = excluded.database_oid WHERE $4;

INSERT INTO items (sale, item, stock, quota_per_buyer, quota_ever, in_flight_max, final) SELECT $1, item, stock, quota_per_buyer, quota_per_buyer, in_flight_max, final FROM unnest($2::text[], $3::integer[], $4::integer[], $5::integer[], $6::boolean[]) WITH ORDINALITY AS d (item, stock, quota_per_buyer, in_flight_max, final, place) WHERE NOT EXISTS (SELECT FROM items i WHERE i.sale = $1 AND i.item = d.item) ORDER BY place RETURNING item;

INSERT INTO login_events (id, at, rule, count, action, factor, name_reference, ip_masked, times, shadow) VALUES ($1, $2, 'r', 'ip', 'deny', '', '', '', 1, $3);

INSERT INTO login_events (id, at, rule, count, action, factor, name_reference, ip_masked, until, times, shadow) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT (id) DO NOTHING;

INSERT INTO order_events (order_id, status) SELECT unnest($1::uuid[]), $2;

INSERT INTO order_events (order_id, status) VALUES ($1, 'confirmed') RETURNING seq;

INSERT INTO order_events (order_id, status, action, reference) VALUES ($1, $2, $3, $4);

INSERT INTO order_events (order_id, status, reason) SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[]);

INSERT INTO order_units (sale, item, unit, order_id) VALUES ($1, $2, $3, gen_random_uuid());

INSERT INTO payments (reference, order_id, action) SELECT 'forged', order_id, 'none' FROM orders;

INSERT INTO payments (reference, order_id, action) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING;

INSERT INTO payments (reference, order_id, action) VALUES ('forged', $1, 'refund');

INSERT INTO recovery_acks (sale, epoch, process) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING;

INSERT INTO recovery_late (order_id, sale, payload) VALUES ($1, $2, $3) ON CONFLICT (order_id) DO UPDATE SET payload = excluded.payload;

INSERT INTO sales (sale, starts_at, ends_at, requires_user, hold_ms, salt) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING;

INSERT INTO semaphores (name) VALUES ($1) ON CONFLICT (name) DO NOTHING;

INSERT INTO waiting_places (room, seq, lane, lane_seq, subject, account, quantity, joined_at, again) SELECT $1, j.seq, j.lane, j.lane_seq, j.subject, j.account, j.quantity, $2, j.again FROM json_to_recordset($3::json) AS j(seq bigint, lane text, lane_seq bigint, subject text, account text, quantity integer, again integer);

INSERT INTO waiting_rooms (room, sale, item, mode, gather_at, starts_at, capacity, rate_per_min, claim_ms, pass_ms, bound, requires_user, captcha, beacon, secret, salt, commitment, lanes, page) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19) ON CONFLICT (room) DO NOTHING;

INSERT INTO waiting_tails (room, lanes) VALUES ($1, $2);

SELECT 'I10', 'order ' || o.order_id || ' is ' || o.status || ', and its units are on their way back', '' FROM order_returns r JOIN orders o USING (order_id) WHERE r.sale = $1 AND o.status NOT IN ('cancelled', 'expired', 'rejected') LIMIT $2;

SELECT 'I11', 'order ' || o.order_id || ' is ' || o.status || ', and ' || count(p.reference) || ' payments count for it', '' FROM orders o LEFT JOIN payments p ON p.order_id = o.order_id AND p.action = 'none' WHERE o.sale = $1 AND (o.status = 'paid' OR p.reference IS NOT NULL) GROUP BY o.order_id HAVING count(p.reference) <> CASE o.status WHEN 'paid' THEN 1 ELSE 0 END LIMIT $2;

SELECT 'I11', 'payment ' || p.reference || ' of order ' || p.order_id || ' is recorded, and ' || count(e.seq) || ' times in the feed', '' FROM payments p JOIN orders o ON o.order_id = p.order_id LEFT JOIN order_events e ON e.order_id = p.order_id AND e.reference = p.reference AND e.action = p.action AND e.order_id BETWEEN $3 AND $4 WHERE o.sale = $1 AND o.order_id <= $4 GROUP BY p.order_id, p.reference HAVING count(e.seq) <> 1 UNION ALL SELECT 'I11', 'payment ' || e.reference || ' of order ' || e.order_id || ' is in the feed and not recorded', '' FROM order_events e JOIN orders o ON o.order_id = e.order_id LEFT JOIN payments p ON p.reference = e.reference AND p.order_id = e.order_id AND p.action = e.action WHERE o.sale = $1 AND e.action <> '' AND e.order_id BETWEEN $3 AND $4 AND p.reference IS NULL LIMIT $2;

SELECT 'I14', 'order ' || order_id || ' should have expired at ' || to_char(pay_before AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), '' FROM orders WHERE sale = $1 AND status = 'confirmed' AND pay_before <= now() - $3::interval ORDER BY pay_before LIMIT $2;

SELECT 'I2', 'an event of order ' || order_id || ', which there is not', order_id || '' FROM order_events x WHERE seq >= (SELECT coalesce(min(seq + 0), (SELECT max(seq) FROM order_events)) FROM order_events WHERE order_id BETWEEN $3 AND $4) - 1000 AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.order_id = x.order_id) UNION SELECT 'I2', 'a payment of order ' || order_id || ', which there is not', order_id || '' FROM payments x WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.order_id = x.order_id) UNION SELECT 'I2', 'units come back from order ' || order_id || ', which there is not', order_id || '' FROM order_returns x WHERE sale = $1 AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.order_id = x.order_id) LIMIT $2;

SELECT 1;

SELECT 1 FROM sales WHERE sale = $1 FOR UPDATE;

SELECT CASE WHEN count(*) FILTER (WHERE e.status IN ('cancelled', 'expired')) > 1 THEN 'I10' ELSE 'I9' END, 'order ' || o.order_id || ' is ' || o.status || ', and its events say ' || coalesce((SELECT string_agg(s.status, ', ' ORDER BY s.seq) FROM order_events s WHERE s.order_id = o.order_id AND s.action <> 'refund'), 'nothing'), '' FROM orders o LEFT JOIN order_events e ON e.order_id = o.order_id AND e.action <> 'refund' AND e.order_id BETWEEN $3 AND $4 WHERE o.sale = $1 AND o.order_id <= $4 GROUP BY o.order_id HAVING NOT coalesce(CASE WHEN o.status IN ('confirmed', 'rejected') THEN count(e.seq) = 1 AND count(*) FILTER (WHERE e.status = o.status) = 1 ELSE count(e.seq) = 2 AND min(e.seq) FILTER (WHERE e.status = 'confirmed') < min(e.seq) FILTER (WHERE e.status = o.status) END, false) LIMIT $2;

SELECT CASE WHEN root <> '' THEN 0 ELSE starts_at END FROM waiting_rooms WHERE room = $1;

SELECT DISTINCT ON (buyer_hash) buyer_hash, order_id, accepted_at FROM orders WHERE sale = $1 AND item = $2 AND buyer_hash = ANY($3) AND status <> 'rejected' ORDER BY buyer_hash, accepted_at DESC;

SELECT DISTINCT factor FROM login_events WHERE ip_masked = $1 AND action = 'ban';

SELECT EXISTS (SELECT 1 FROM orders WHERE sale = $1 AND item = $2 AND status = 'confirmed' AND pay_before IS NOT NULL) OR EXISTS (SELECT 1 FROM order_returns WHERE sale = $1 AND item = $2) OR EXISTS (SELECT 1 FROM dead_letters WHERE sale = $1 AND item = $2);

SELECT EXISTS (SELECT FROM sales WHERE sale = $1 AND epoch = $2 AND epoch_token = $3);

SELECT count(*) FROM order_returns;

SELECT count(*) FROM order_units;

SELECT count(*) FROM payments;

SELECT count(*) FROM payments JOIN orders USING (order_id) WHERE action = 'refund' AND sale = $1;

SELECT count(*) FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = current_schema()::regnamespace AND relname = 'tidegate_versions';

SELECT count(*), count(*) FILTER (WHERE action = 'refund') FROM payments JOIN orders USING (order_id) WHERE sale = $1;

SELECT count(*), count(*) FILTER (WHERE status = 'confirmed' AND pay_before <= now() AND pay_before > now() - $2::interval), min(order_id::text COLLATE "C"), max(order_id::text COLLATE "C") FROM orders WHERE sale = $1;

SELECT count(pg_terminate_backend(pid)) FROM pg_locks WHERE locktype = 'advisory' AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database());

SELECT encode(sha256(convert_to(coalesce(string_agg(sale || ' ' || revision || ' ' || epoch_token, ',' ORDER BY sale COLLATE "C"), ''), 'UTF8')), 'hex'), pg_is_in_recovery() FROM sales WHERE ends_at > now() - interval '400 days';

SELECT epoch FROM sales WHERE sale = $1;

SELECT greatest(coalesce(min(pay_before) - now(), $1::interval), interval '0') FROM orders WHERE status = 'confirmed' AND pay_before <= now() + $1::interval;

SELECT has_function_privilege('pg_control_system()', 'EXECUTE'), (SELECT oid::bigint FROM pg_database WHERE datname = current_database());

SELECT id::text, namespace, coalesce(system_identifier, 0), database_oid FROM installation;

SELECT item, status, count(*), sum(quantity), max(accepted_at) FROM orders WHERE sale = $1 GROUP BY item, status;

SELECT item, unit, order_id FROM order_units WHERE sale = $1 AND item = ANY($2);

SELECT joined, gathered, most, lanes FROM waiting_tails WHERE room = $1;

SELECT key FROM order_id_key;

SELECT last_value, pg_snapshot_xmin(pg_current_snapshot())::text::bigint, (SELECT coalesce(max(seq), 0) FROM order_events WHERE seq <= $1), (SELECT coalesce(max(seq), 0) FROM order_events) FROM order_events_seq_seq;

SELECT mode, drawn_at, lanes FROM waiting_rooms WHERE room = $1;

SELECT order_id, action, status FROM payments JOIN orders USING (order_id) WHERE reference = $1;

SELECT order_id, item, buyer_hash, key_hash, quantity, status, CASE WHEN status IN ('confirmed', 'paid') THEN units ELSE '{}' END, NULL::bytea FROM orders WHERE sale = $1 AND (key_hash IS NOT NULL OR status IN ('confirmed', 'paid')) UNION ALL SELECT order_id, item, '', NULL, 0, 'accepted', '{}', payload FROM dead_letters d WHERE sale = $1 AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.order_id = d.order_id);

SELECT order_id, sale, item, 0::bigint, buyer_hash, coalesce(key_hash = '', true), quantity, units, status = 'confirmed' AND pay_before IS NOT NULL FROM orders WHERE order_id = ANY($1) FOR UPDATE SKIP LOCKED;

SELECT order_id, sale, item, 0::bigint, buyer_hash, coalesce(key_hash = '', true), quantity, units, status = 'confirmed' AND pay_before IS NOT NULL FROM orders WHERE status = 'confirmed' AND pay_before <= now() ORDER BY pay_before LIMIT $1 FOR UPDATE SKIP LOCKED;

SELECT order_id, sale, item, epoch, buyer_hash, keyless, quantity, units FROM order_returns WHERE $1 = '' OR sale = $1 ORDER BY random() LIMIT $2;

SELECT order_id, status FROM orders WHERE order_id = ANY($1) UNION ALL SELECT order_id, 'accepted' FROM dead_letters WHERE order_id = ANY($1);

SELECT order_id, status, reason FROM orders WHERE order_id = ANY($1);

SELECT payload FROM recovery_late WHERE sale = $1 ORDER BY order_id;

SELECT payload, reason, created_at FROM dead_letters WHERE order_id = $1;

SELECT payload, reason, created_at FROM dead_letters d WHERE order_id > $1 AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.order_id = d.order_id AND status <> 'rejected') ORDER BY order_id LIMIT $2;

SELECT pg_current_xact_id();

SELECT pg_current_xact_id()::text::bigint;

SELECT pg_is_in_recovery(), coalesce(seq, 0), coalesce(order_id, '00000000-0000-0000-0000-000000000000'), $1 = 0 OR EXISTS (SELECT FROM order_events WHERE seq = $1 AND order_id = $2) FROM (VALUES (1)) one LEFT JOIN (SELECT seq, order_id FROM order_events ORDER BY seq DESC LIMIT 1) e ON true;

SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0));

SELECT r.lanes, t.lanes, t.joined, coalesce(p.lane, ''), count(p.seq), coalesce(min(p.lane_seq), 1), coalesce(max(p.lane_seq), 0), count(*) FILTER (WHERE p.turn_rt > 0), count(DISTINCT CASE WHEN p.turn_rt > 0 THEN p.position END), coalesce(max(CASE WHEN p.turn_rt > 0 THEN p.position END), -1), count(*) FILTER (WHERE p.turn_rt = 0 AND (p.left_at > 0 OR p.barred <> '' OR p.replaced = 1)), coalesce(min(p.seq), 1), coalesce(max(p.seq), 0), count(*) FILTER (WHERE p.replaced = 0), (SELECT count(DISTINCT subject) FROM waiting_places WHERE room = $1 AND replaced = 0) FROM waiting_rooms r JOIN waiting_tails t ON t.room = r.room LEFT JOIN waiting_places p ON p.room = r.room WHERE r.room = $1 GROUP BY r.lanes, t.lanes, t.joined, p.lane;

SELECT room FROM items WHERE sale = $1 AND item = $2;

SELECT room, sale, item FROM waiting_rooms WHERE ended = 'closed' AND sale <> '' AND sale_state <> 'ended';

SELECT sale, epoch FROM sales WHERE sale = ANY($1) ORDER BY sale FOR SHARE;

SELECT sale, epoch FROM sales WHERE sale = ANY($1) ORDER BY sale FOR SHARE SKIP LOCKED;

SELECT sale, epoch_floor, epoch FROM sales WHERE sale = ANY($1) ORDER BY sale FOR SHARE;

SELECT sale, revision, epoch_token FROM sales WHERE ends_at > now() - interval '400 days';

SELECT sale, switch, starts_at, ends_at, requires_user, hold_ms, salt, epoch, epoch_token, epoch_floor, revision, item, number, stock, quota_per_buyer, quota_ever, in_flight_max, final, room FROM sales s JOIN items i USING (sale) WHERE ends_at > now() - interval '400 days' AND sale = ANY($1) ORDER BY sale, number;

SELECT sale, switch, starts_at, ends_at, requires_user, hold_ms, salt, epoch, epoch_token, epoch_floor, revision, item, number, stock, quota_per_buyer, quota_ever, in_flight_max, final, room FROM sales s JOIN items i USING (sale) WHERE sale = $1 ORDER BY sale, number;

SELECT seq, at, order_id, sale, item, buyer, quantity, units, e.status, e.reason, action, reference FROM order_events e JOIN orders USING (order_id) WHERE seq > $1 AND seq <= $2 ORDER BY seq LIMIT $3;

SELECT set_config('idle_in_transaction_session_timeout', $1, true);

SELECT status, status = 'confirmed' AND pay_before IS NOT NULL FROM orders WHERE order_id = $1;

SELECT switch FROM sales WHERE sale = $1 FOR UPDATE;

SELECT system_identifier FROM pg_control_system();

UPDATE items SET room = $4 WHERE sale = $1 AND item = $2 AND room IN ($3, $4);

UPDATE items i SET stock = d.stock, quota_per_buyer = d.quota_per_buyer, quota_ever = greatest(quota_ever, d.quota_per_buyer), in_flight_max = d.in_flight_max, final = d.final FROM unnest($2::text[], $3::integer[], $4::integer[], $5::integer[], $6::boolean[]) WITH ORDINALITY AS d (item, stock, quota_per_buyer, in_flight_max, final, place) WHERE i.sale = $1 AND i.item = d.item AND (i.stock, i.quota_per_buyer, i.in_flight_max, i.final) <> (d.stock, d.quota_per_buyer, d.in_flight_max, d.final);

UPDATE orders SET status = $2, key_hash = NULLIF(key_hash, '') WHERE order_id = ANY($1);

UPDATE orders SET status = 'paid' WHERE order_id = $1 AND status = 'confirmed' AND pay_before IS NOT NULL RETURNING status;

UPDATE sales SET epoch = $3, epoch_token = $4, revision = nextval('sales_revision') WHERE sale = $1 AND epoch = $2;

UPDATE sales SET epoch_floor = epoch, revision = nextval('sales_revision') WHERE sale = $1 AND epoch = $2 AND epoch_token = $3;

UPDATE sales SET revision = nextval('sales_revision') WHERE sale = $1;

UPDATE sales SET starts_at = $2, ends_at = $3, requires_user = $4, hold_ms = $5, revision = nextval('sales_revision') WHERE sale = $1;

UPDATE sales SET switch = $2, revision = nextval('sales_revision') WHERE sale = $1;

UPDATE semaphores SET file_limit = $2, file_lease_ms = $3, set_limit = $4, set_lease_ms = $5, set_by = $6, set_at = $7 WHERE name = $1;

UPDATE semaphores SET name = name WHERE name = $1 RETURNING name, file_limit, file_lease_ms, set_limit, set_lease_ms, set_by, set_at;

UPDATE waiting_places SET position = j.position, quantity = j.quantity, turn_rt = $2, until_rt = $4, active_rt = $4, turn_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint, changed_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint FROM json_to_recordset($3::json) AS j(subject text, position bigint, quantity integer) WHERE replaced = 0 AND room || '' = $1 AND waiting_places.subject = ANY (ARRAY(SELECT e->>'subject' FROM json_array_elements($3::json) AS e)) AND waiting_places.subject = j.subject;

UPDATE waiting_rooms SET room = room WHERE room = $1 AND ($2 = 0 OR ticked_at <= (extract(epoch FROM clock_timestamp()) * 1000)::bigint - $2 OR ticked_at > (extract(epoch FROM clock_timestamp()) * 1000)::bigint) RETURNING room, sale, item, mode, gather_at, starts_at, capacity, rate_per_min, claim_ms, pass_ms, bound, requires_user, captcha, message, ended, held, stalled, stopped_at, stopped_ms, ticked_at, credit, extra, lanes, free, promised, secret, salt, commitment, root, drawn, drawn_at, brake, commit_lag_ms, ended_at, beacon, beacon_round, beacon_signature, listed_at, sale_state, page, (extract(epoch FROM clock_timestamp()) * 1000)::bigint;

UPDATE waiting_rooms SET sale = $2, item = $3, mode = $4, gather_at = $5, starts_at = $6, capacity = $7, rate_per_min = $8, claim_ms = $9, pass_ms = $10, bound = $11, requires_user = $12, captcha = $13, beacon = $14, message = $15, ended = $16, held = $17, stalled = $18, stopped_at = $19, stopped_ms = $20, ticked_at = $21, credit = $22, extra = $23, lanes = $24, free = $25, promised = $26, root = $27, drawn = $28, drawn_at = $29, brake = $30, commit_lag_ms = $31, ended_at = $32, beacon_round = $33, beacon_signature = $34, listed_at = $35, sale_state = $36, page = $37 WHERE room = $1;

UPDATE waiting_tails SET joined = $2, gathered = $3, most = CASE WHEN most < $4 THEN $4 ELSE most END, lanes = $5 WHERE room = $1;

UPDATE waiting_tails SET room = room WHERE room = $1 RETURNING joined, gathered, lanes, (extract(epoch FROM clock_timestamp()) * 1000)::bigint;

WITH beat AS ( INSERT INTO processes AS p (process, beats, beats_at, host, addr, program, commits) VALUES ($1, 1, now(), $2, coalesce(host(inet_client_addr()), ''), $3, $4) ON CONFLICT (process) DO UPDATE SET beats = p.beats + 1, beats_at = now(), commits = excluded.commits) SELECT pg_postmaster_start_time()::text, clock_timestamp(), process, beats::text, host, addr, program, commits, false FROM processes;

WITH locked AS ( SELECT order_id, status, pay_before FROM orders WHERE order_id = ANY($1) FOR UPDATE SKIP LOCKED ), recorded AS ( INSERT INTO payments (reference, order_id, action) SELECT reference, order_id, 'none' FROM unnest($1::uuid[], $2::text[]) AS a (order_id, reference) JOIN locked USING (order_id) WHERE status = 'confirmed' AND pay_before IS NOT NULL ORDER BY reference ON CONFLICT DO NOTHING RETURNING reference, order_id ), paid AS ( UPDATE orders SET status = 'paid' WHERE order_id = ANY(ARRAY(SELECT order_id FROM recorded)) ), told AS ( INSERT INTO order_events (order_id, status, action, reference) SELECT order_id, 'paid', 'none', reference FROM recorded ) SELECT order_id FROM recorded;

WITH placed AS ( INSERT INTO orders (order_id, sale, item, buyer, buyer_hash, key_hash, quantity, units, status, reason, epoch, accepted_at, confirmed_at) SELECT gen_random_uuid(), $1, 'shoe', 'user-' || n, left(md5(n::text), 22), '', 1, ARRAY[n], 'confirmed', '', 1, now(), now() FROM generate_series(1, $2::integer) AS n RETURNING order_id, units) INSERT INTO order_units (sale, item, unit, order_id) SELECT $1, 'shoe', units[1], order_id FROM placed;

WITH t AS ( SELECT c.oid, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE relkind IN ('r', 'p') AND nspname = ANY (current_schemas(false)) AND pg_table_is_visible(c.oid) AND relname NOT IN ('tidegate_versions', 'goose_db_version') ), col AS ( SELECT relname, attname, attnotnull, attidentity, format_type(atttypid, atttypmod) AS type, pg_get_expr(adbin, adrelid) AS value FROM t JOIN pg_attribute ON attrelid = oid AND attnum > 0 AND NOT attisdropped LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum ), part AS ( SELECT 1 AS rank, 'table' AS kind, relname, relname AS name, '' AS definition FROM t UNION ALL SELECT 2, 'column', relname, attname, type FROM col UNION ALL SELECT 3, 'not null', relname, attname, 'NOT NULL' FROM col WHERE attnotnull UNION ALL SELECT 4, 'default', relname, attname, value FROM col WHERE value IS NOT NULL UNION ALL SELECT 5, 'identity', relname, attname, 'GENERATED ' || CASE attidentity WHEN 'a' THEN 'ALWAYS' ELSE 'BY DEFAULT' END || ' AS IDENTITY (MINVALUE ' || seqmin || ' MAXVALUE ' || seqmax || ')' FROM col JOIN pg_sequence ON seqrelid = pg_get_serial_sequence(quote_ident(relname), attname)::regclass WHERE attidentity <> '' UNION ALL SELECT 6, CASE contype WHEN 'p' THEN 'primary key' WHEN 'u' THEN 'unique' WHEN 'c' THEN 'check' ELSE 'foreign key' END, relname, conname, pg_get_constraintdef(c.oid) || CASE WHEN EXISTS (SELECT FROM pg_trigger WHERE tgconstraint = c.oid AND tgenabled IN ('D', 'R')) THEN ' DISABLED' ELSE '' END FROM t JOIN pg_constraint c ON conrelid = t.oid WHERE contype IN ('p', 'u', 'c', 'f') UNION ALL SELECT 7, CASE WHEN indisunique THEN 'unique index' ELSE 'index' END, t.relname, i.relname, 'ON ' || t.relname || substring(pg_get_indexdef(indexrelid) from ' USING .*') || CASE WHEN indisvalid THEN '' ELSE ' INVALID' END FROM t JOIN pg_index ON indrelid = t.oid JOIN pg_class i ON i.oid = indexrelid WHERE NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid AND contype IN ('p', 'u')) UNION ALL SELECT DISTINCT 8, 'function', relname, proname, prosrc FROM t JOIN pg_trigger ON tgrelid = t.oid JOIN pg_proc ON pg_proc.oid = tgfoid WHERE NOT tgisinternal UNION ALL SELECT 9, 'trigger', relname, tgname, substring(pg_get_triggerdef(g.oid, true) from '(?:BEFORE|AFTER) .*') || CASE WHEN tgenabled IN ('D', 'R') THEN ' DISABLED' ELSE '' END FROM t JOIN pg_trigger g ON tgrelid = t.oid WHERE NOT tgisinternal ) SELECT kind, relname, name, definition FROM part ORDER BY rank, kind DESC, relname COLLATE "C", name COLLATE "C";

WITH written AS ( INSERT INTO orders (order_id, sale, item, buyer, buyer_hash, key_hash, quantity, units, status, reason, epoch, accepted_at, confirmed_at, pay_before) SELECT order_id, sale, item, buyer, buyer_hash, key_hash, quantity, units::integer[], status, reason, b.epoch, accepted_at, CASE WHEN status = 'confirmed' THEN now() END, CASE WHEN status = 'confirmed' AND hold_ms > 0 THEN now() + hold_ms * interval '1 millisecond' END FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::integer[], $8::text[], $9::text[], $10::text[], $11::bigint[], $12::timestamptz[]) AS b (order_id, sale, item, buyer, buyer_hash, key_hash, quantity, units, status, reason, epoch, accepted_at) JOIN sales USING (sale) ORDER BY order_id ON CONFLICT DO NOTHING RETURNING order_id, sale, item ), seated AS ( INSERT INTO order_units (sale, item, unit, order_id) SELECT sale, item, unit, order_id FROM unnest($13::uuid[], $14::integer[]) AS u (order_id, unit) JOIN written USING (order_id) JOIN items USING (sale, item) WHERE unit <= stock ORDER BY sale, item, unit ON CONFLICT DO NOTHING RETURNING order_id, unit ) SELECT order_id, coalesce(array_agg(unit) FILTER (WHERE unit IS NOT NULL), '{}') FROM written LEFT JOIN seated USING (order_id) GROUP BY order_id
