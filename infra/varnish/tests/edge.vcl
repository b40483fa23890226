# The site of the tests: one backend (varnishtest adds it), purges from the loopback interface.

acl freshet_purgers {
	"127.0.0.1";
}

sub freshet_may_purge {
	if (client.ip !~ freshet_purgers || req.http.Freshet-Purge-Secret != "secret") {
		return (synth(403));
	}
}

include "freshet.vcl";
