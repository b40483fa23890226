//! An origin that answers every request with the next number, tagged with the key of its path, in the headers that the
//! gateway writes. The path's last segment says what else it is like.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use freshet_core::freshness::{
    Edge, Lifetimes, NOT_SHARED, ResourceKind, cacheable, resource_surrogates,
};
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::time::Ttl;
use tokio::sync::Semaphore;

use super::http::{Reply, Request, serve};

#[derive(Clone)]
pub struct Origin {
    pub port: u16,
    pub requests: Arc<AtomicUsize>,
    /// `…/slow` is answered when it is let go.
    pub go: Arc<Semaphore>,
}

pub fn namespace() -> Namespace {
    Namespace::new("d", "c").expect("valid")
}

impl Origin {
    pub async fn start(edges: &[Edge]) -> Origin {
        let mut origin = Origin {
            port: 0,
            requests: Arc::new(AtomicUsize::new(0)),
            go: Arc::new(Semaphore::new(0)),
        };
        let (edges, serving) = (edges.to_vec(), origin.clone());
        origin.port = serve(move |request| {
            let (edges, origin) = (edges.clone(), serving.clone());
            async move { Some(origin.answer(&request, &edges).await) }
        })
        .await;
        origin
    }

    async fn answer(&self, request: &Request, edges: &[Edge]) -> Reply {
        let path = request.target.as_str();
        let number = self.requests.fetch_add(1, Ordering::SeqCst) + 1;
        let not_shared =
            |status| Reply::new(status, number.to_string()).with("cache-control", NOT_SHARED);
        let s = match path.rsplit('/').next() {
            Some("private") => return not_shared(200),
            Some("error") => return not_shared(500),
            Some("absent") => return not_shared(404),
            Some("zero") => 0,
            Some("slow") => {
                self.go.acquire().await.expect("open").forget();
                600
            }
            _ => 600,
        };
        let lifetimes = Lifetimes {
            m: Ttl(60),
            s: Ttl(s),
        };
        let keys = resource_surrogates(ResourceKind::Record, &namespace(), &Key::from(path));
        let mut reply = Reply::new(200, number.to_string());
        for (name, value) in cacheable(lifetimes, &keys, edges) {
            reply = reply.with(name, value);
        }
        reply
    }
}
