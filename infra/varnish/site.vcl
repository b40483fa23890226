# A site's part of the configuration: where the gateways are and who may purge. Copy it and fill it in
# (`infra/up --varnish` and the tests generate theirs), then start Varnish with it:
#
#   varnishd -f /etc/varnish/site.vcl -p vcl_path=/etc/varnish:/usr/share/varnish/vcl …

vcl 4.1;

import directors;

backend gateway1 {
	.host = "127.0.0.1";
	.port = "8080";
}

acl freshet_purgers {
	"127.0.0.1";
	"::1";
}

sub vcl_init {
	new gateways = directors.round_robin();
	gateways.add_backend(gateway1);
}

sub freshet_may_purge {
	# Address and secret both: the one stops strangers, the other stops a neighbour who can forge requests.
	if (client.ip !~ freshet_purgers || req.http.Freshet-Purge-Secret != "change-me") {
		return (synth(403));
	}
}

sub vcl_recv {
	set req.backend_hint = gateways.backend();
}

include "freshet.vcl";
