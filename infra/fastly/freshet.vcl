# The edge policy for a Fastly service: what infra/varnish/freshet.vcl does, in Fastly's dialect. It never decides how
# long an answer lives (the gateway does, in Surrogate-Control) and never serves one past that time.
# Rules C3, C5, C9 and C15 of the coherence contract; docs/edges.md.
#
# Fastly's dialect runs at Fastly alone: this file has not been run. Try it on a service of your own, with the cases
# of infra/varnish/tests, before you rely on it. It is a main VCL, made for backends that the service has; the lines
# "#FASTLY …" are where Fastly puts what it generates, the choice of a backend and shielding among it.
#
# Purging goes through the API, whose token is the secret and whose scope (purge_select) is the access list.

sub vcl_recv {
#FASTLY recv

	# C5: a purge by URL asks for the token as well. Without this anybody may send PURGE.
	if (req.method == "FASTLYPURGE") {
		set req.http.Fastly-Purge-Requires-Auth = "1";
		return (lookup);
	}

	# A word of this file, which no client may speak; between an edge and its shield it is kept.
	if (fastly.ff.visits_this_service == 0) {
		unset req.http.Freshet-Origin;
	}
	if (req.method != "GET" && req.method != "HEAD") {
		return (pass);
	}
	# C15: what depends on who asks is not shared. A stream of events is nobody's copy.
	if (req.url !~ "^/v1/" || req.url ~ "^[^?]*/_live(\?|$)" || req.http.Authorization) {
		return (pass);
	}
	# The gateway does not read cookies, so they select nothing.
	unset req.http.Cookie;

	# C9: `max-age=0`, a browser's revalidation, is answered from here, where purges arrive. `no-cache` is a read that
	# wants the origin: a miss by decree, here and at the shield, whose answer is what everybody gets from then on.
	if (req.http.Cache-Control ~ "(?i)(^|[\s,])no-cache([\s,]|$)") {
		set req.http.Freshet-Origin = "1";
	}
	if (req.http.Freshet-Origin) {
		set req.hash_always_miss = true;
	}
	# C3: an edge takes nothing stale from its shield.
	set req.max_stale_while_revalidate = 0s;
	set req.max_stale_if_error = 0s;
	return (lookup);
}

# One gateway stands behind all names of this service: the URL alone is the key.
sub vcl_hash {
	set req.hash += req.url;
#FASTLY hash
	return (hash);
}

sub vcl_hit {
#FASTLY hit
	return (deliver);
}

sub vcl_miss {
#FASTLY miss
	# The gateway's own tier has to see this one, and nothing else that clients say of caches.
	if (req.http.Freshet-Origin) {
		set bereq.http.Cache-Control = "no-cache";
	} else {
		unset bereq.http.Cache-Control;
	}
	return (fetch);
}

sub vcl_pass {
#FASTLY pass
	return (pass);
}

sub vcl_fetch {
#FASTLY fetch
	# C3: stale copies are never handed out, whatever the answer allows.
	set beresp.stale_while_revalidate = 0s;
	set beresp.stale_if_error = 0s;

	# What is passed comes as it comes: events would wait for a body that does not end.
	if (req.url ~ "^[^?]*/_live(\?|$)") {
		set beresp.do_stream = true;
		return (pass);
	}
	# Only what the gateway declared shared, gave a lifetime and tagged is kept. Fastly's own rule would keep what says
	# `no-store` beside a `max-age`, and for an hour what says nothing.
	if (beresp.status != 200
	    || beresp.ttl <= 0s
	    || beresp.http.Cache-Control ~ "(?i)(^|[\s,])(private|no-store|no-cache)"
	    || beresp.http.Surrogate-Control !~ "(?i)(^|[\s,])max-age=[0-9]+"
	    || beresp.http.Set-Cookie
	    || beresp.http.Vary ~ "\*"
	    || !beresp.http.Surrogate-Key) {
		# Remembers for a while not to queue requests behind one another for this URL (hit-for-pass).
		set beresp.ttl = 10s;
		return (pass);
	}
	return (deliver);
}

sub vcl_deliver {
#FASTLY deliver
	# A shield hands its copy to an edge with its age, which counts against S there. A client gets its whole max-age,
	# from now; the sketch reckons with that (C3). Nor is S for whoever stands behind the edge.
	if (fastly.ff.visits_this_service == 0) {
		unset resp.http.Age;
		set resp.http.Date = now;
		if (resp.http.Cache-Control) {
			set resp.http.Cache-Control = regsuball(resp.http.Cache-Control, ",\s*s-maxage=[0-9]+", "");
		}
		unset resp.http.Surrogate-Key;
		unset resp.http.Surrogate-Control;
		unset resp.http.xkey;
		unset resp.http.Cache-Tag;
		unset resp.http.Edge-Cache-Tag;
		unset resp.http.Edge-Control;
		unset resp.http.Cloudflare-CDN-Cache-Control;
	}
	return (deliver);
}

sub vcl_error {
#FASTLY error
	set obj.http.Cache-Control = "private, no-store, max-age=0";
	set obj.http.Access-Control-Allow-Origin = "*";
	# Nothing is remembered of it: the next request asks the gateway again.
	set obj.ttl = 0s;
	return (deliver);
}

sub vcl_log {
#FASTLY log
}
