//! Equal reads that arrive while one is under way wait for it instead of asking the database again.
//!
//! Only an answer that was settled (registered and not invalidated meanwhile) is shared; the others read for
//! themselves, since an older read may lack a write that they must see. For the same reason reads are equal only
//! when they also began under the same invalidation generation: a write through this gateway starts a new one.

use std::collections::HashMap;
use std::sync::Arc;

use freshet_core::key::Key;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::{Entry, Generation};

type Slot = (Key, Generation);
type Waiting = HashMap<Slot, watch::Receiver<Option<Arc<Entry>>>>;

/// The reads under way. Cheap to clone.
#[derive(Clone, Default)]
pub struct Coalescer {
    waiting: Arc<Mutex<Waiting>>,
}

/// What a reader is to do.
pub enum Role {
    /// Read, and tell the others.
    Leader(Leader),
    /// The other's answer; `None` when it cannot be shared.
    Follower(Option<Arc<Entry>>),
}

/// The one that reads. Dropping it without an answer lets the others read for themselves.
pub struct Leader {
    coalescer: Coalescer,
    slot: Slot,
    answer: watch::Sender<Option<Arc<Entry>>>,
}

impl Coalescer {
    /// Becomes the leader for this key and generation, or waits for the one there is.
    pub async fn join(&self, key: &Key, generation: Generation) -> Role {
        let slot = (key.clone(), generation);
        let mut receiver = {
            let mut waiting = self.waiting.lock();
            match waiting.get(&slot) {
                Some(receiver) => receiver.clone(),
                None => {
                    let (answer, receiver) = watch::channel(None);
                    waiting.insert(slot.clone(), receiver);
                    return Role::Leader(Leader {
                        coalescer: self.clone(),
                        slot,
                        answer,
                    });
                }
            }
        };
        // An error means that the leader is gone; what it left, if anything, is still there.
        let _ = receiver.wait_for(Option::is_some).await;
        let answer = receiver.borrow().clone();
        Role::Follower(answer)
    }
}

impl Leader {
    /// Shares a settled answer with everybody who waits.
    pub fn share(self, entry: Arc<Entry>) {
        self.answer.send_replace(Some(entry));
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.coalescer.waiting.lock().remove(&self.slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generation() -> Generation {
        let namespace = freshet_core::name::Namespace::new("d", "c").expect("valid");
        crate::tier::Tier::new(1 << 20, 1 << 20).generation(&namespace, &Key::from("k"))
    }

    #[tokio::test]
    async fn followers_of_a_leader_that_gave_up_read_for_themselves() {
        let coalescer = Coalescer::default();
        let key = Key::from("k");
        let Role::Leader(leader) = coalescer.join(&key, generation()).await else {
            panic!("the first is the leader");
        };
        let follower = {
            let (coalescer, key) = (coalescer.clone(), key.clone());
            tokio::spawn(async move { coalescer.join(&key, generation()).await })
        };
        tokio::task::yield_now().await;
        drop(leader);
        match follower.await.expect("no panic") {
            Role::Follower(answer) => assert!(answer.is_none()),
            Role::Leader(_) => {} // it came after the leader had gone
        }
        assert!(coalescer.waiting.lock().is_empty());
    }
}
