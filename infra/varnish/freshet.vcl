# The edge policy for Varnish 7: which answers of the gateway may be kept, how they are found, and how they go.
# It never decides how long an answer lives (the gateway does) and never serves one past that time.
# Rules C3, C5, C9 and C15 of the coherence contract; RFC 9111 (caching), RFC 9211 (Cache-Status).
#
# A site file sets up the backends, says who may purge (`freshet_may_purge`) and includes this one: see site.vcl.

vcl 4.1;

import std;
import xkey;

sub vcl_recv {
	# Words of this file, which no client may speak.
	unset req.http.Freshet-Edge;

	if (req.method == "PURGE") {
		call freshet_purge;
	}
	unset req.http.Freshet-Purge-Secret;
	unset req.http.xkey-purge;

	# The gateway limits bodies more exactly; this keeps absurd ones off its doorstep. MongoDB's own messages end at 48 MB.
	if (std.integer(req.http.Content-Length, 0) > 48000000) {
		return (synth(413));
	}
	if (req.method != "GET" && req.method != "HEAD") {
		# QUERY (RFC 10008) is listed because Varnish would pipe a method it does not know.
		if (req.method ~ "^(POST|PUT|PATCH|DELETE|OPTIONS|QUERY)$") {
			set req.http.Freshet-Edge = "fwd=method";
			return (pass);
		}
		return (synth(501));
	}
	# C15: what depends on who asks is not shared. A stream of events is nobody's copy.
	if (req.url !~ "^/v1/" || req.url ~ "^[^?]*/_live(\?|$)" || req.http.Authorization) {
		set req.http.Freshet-Edge = "fwd=bypass";
		return (pass);
	}
	# The gateway does not read cookies, so they select nothing.
	unset req.http.Cookie;

	# C9: `max-age=0`, a browser's revalidation, is answered from here, where purges arrive. `no-cache` is a read
	# that wants the origin: a miss by decree, whose answer is what everybody gets from then on. The elder copy stays
	# beneath it, for the case that the origin fails; a purge takes both.
	if (req.http.Cache-Control ~ "(?i)(^|[\s,])no-cache([\s,]|$)") {
		set req.hash_always_miss = true;
		set req.http.Freshet-Edge = "fwd=request";
	} else {
		set req.http.Freshet-Edge = "fwd=miss";
	}
	return (hash);
}

# C5: the purge is hard. A soft one would let a stale copy out once more.
sub freshet_purge {
	call freshet_may_purge;
	unset req.http.Freshet-Purge-Secret;
	if (req.http.xkey-purge !~ "^[a-z0-9-]+( [a-z0-9-]+)*$") {
		return (synth(400));
	}
	set req.http.Freshet-Edge = xkey.purge(req.http.xkey-purge);
	return (synth(200, "Purged"));
}

# One gateway stands behind all names of this edge: the URL alone is the key.
sub vcl_hash {
	hash_data(req.url);
	return (lookup);
}

sub vcl_backend_fetch {
	if (bereq.http.Freshet-Edge == "fwd=request") {
		# Varnish leaves the client's Cache-Control out of a fetch. The gateway's own tier has to see this one.
		set bereq.http.Cache-Control = "no-cache";
	}
	unset bereq.http.Freshet-Edge;
}

sub vcl_backend_response {
	# C3: stale copies are never handed out, whatever the answer allows; kept a while, they save a transfer (304).
	set beresp.grace = 0s;
	set beresp.keep = 60s;

	if (beresp.http.Surrogate-Control ~ "(?i)(^|[\s,])max-age=[0-9]+") {
		set beresp.ttl = std.duration(
			regsub(beresp.http.Surrogate-Control, "(?i)^(.*[\s,])?max-age=([0-9]+).*$", "\2") + "s", 0s);
	}
	if (!beresp.http.xkey && beresp.http.Surrogate-Key) {
		set beresp.http.xkey = beresp.http.Surrogate-Key;
	}
	call freshet_admit;
	return (deliver);
}

# Only what the gateway declared shared, gave a lifetime and tagged is kept. Varnish's own rule would keep
# a `private` answer as soon as a Surrogate-Control of any kind stands beside it.
sub freshet_admit {
	if (bereq.uncacheable) {
		return (deliver);
	}
	if (beresp.status != 200
	    || beresp.ttl <= 0s
	    || beresp.http.Cache-Control ~ "(?i)(^|[\s,])(private|no-store|no-cache)"
	    || beresp.http.Surrogate-Control ~ "(?i)(^|[\s,])no-store"
	    || (beresp.http.Cache-Control !~ "(?i)max-?age=" && beresp.http.Surrogate-Control !~ "(?i)max-age=")
	    # Nobody's copy, whatever path it came by.
	    || beresp.http.Content-Type ~ "(?i)^text/event-stream"
	    || beresp.http.Set-Cookie
	    || beresp.http.Vary ~ "\*"
	    # What cannot be purged is not kept, but for the second in which the sketch may be shared.
	    || (!beresp.http.xkey && beresp.ttl > 1s)) {
		# Remembers for a while not to queue requests behind one another for this URL (hit-for-miss).
		set beresp.uncacheable = true;
		set beresp.ttl = 10s;
		return (deliver);
	}
}

sub vcl_deliver {
	# C3: the client gets its whole max-age, from now; the sketch reckons with that. Both headers count
	# (RFC 9111 §4.2.3), so both are renewed.
	unset resp.http.Age;
	set resp.http.Date = now;

	# S was for here. A shared cache behind this one is not purged, and would keep its copy for another S.
	if (resp.http.Cache-Control) {
		set resp.http.Cache-Control = regsuball(resp.http.Cache-Control, "(?i),\s*s-maxage=[0-9]+", "");
	}
	unset resp.http.xkey;
	unset resp.http.Surrogate-Key;
	unset resp.http.Surrogate-Control;
	unset resp.http.CDN-Cache-Control;
	unset resp.http.Cloudflare-CDN-Cache-Control;
	unset resp.http.Cache-Tag;
	unset resp.http.Edge-Control;
	unset resp.http.Edge-Cache-Tag;
	unset resp.http.X-Varnish;

	if (obj.hits > 0) {
		set req.http.Freshet-Edge = "hit";
	} else if (req.http.Freshet-Edge != "fwd=bypass" && req.http.Freshet-Edge != "fwd=method" && !obj.uncacheable) {
		set req.http.Freshet-Edge = req.http.Freshet-Edge + "; stored";
	}
	# The member nearest to the origin comes first (RFC 9211 §2).
	if (resp.http.Cache-Status) {
		set resp.http.Cache-Status = resp.http.Cache-Status + ", varnish; " + req.http.Freshet-Edge;
	} else {
		set resp.http.Cache-Status = "varnish; " + req.http.Freshet-Edge;
	}
	return (deliver);
}

sub vcl_backend_error {
	set beresp.http.Content-Type = "application/problem+json";
	set beresp.http.Cache-Control = "private, no-store, max-age=0";
	set beresp.http.Access-Control-Allow-Origin = "*";
	set beresp.http.Retry-After = "1";
	synthetic({"{"type":"about:blank","title":"The gateway cannot be reached","status":"} + beresp.status + {"}"});
	# Nothing is remembered of it: the next request asks the gateway again.
	set beresp.uncacheable = true;
	set beresp.ttl = 0s;
	return (deliver);
}

sub vcl_synth {
	set resp.http.Cache-Control = "private, no-store, max-age=0";
	set resp.http.Access-Control-Allow-Origin = "*";
	unset resp.http.X-Varnish;
	if (resp.reason == "Purged") {
		set resp.http.Content-Type = "application/json";
		set resp.http.xkey-purged = req.http.Freshet-Edge;
		synthetic({"{"purged":"} + req.http.Freshet-Edge + {"}"});
	} else {
		set resp.http.Content-Type = "application/problem+json";
		synthetic({"{"type":"about:blank","title":""} + resp.reason + {"","status":"} + resp.status + {"}"});
	}
	return (deliver);
}
