//! What must be checked before a core sees a message. Signatures are checked outside the core, by a pool; a core cannot be handed an
//! unchecked message, since [`Verified`] has no other constructor.

use crate::ids::ReplicaId;
use thiserror::Error;

/// What arrives from a peer: a free message, or a promise it made durable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Incoming<M, P> {
    /// A message.
    Message(M),
    /// A promise.
    Promise(P),
}

/// Why something was not let through to the core.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Rejected {
    /// View or window make it useless; nobody is at fault.
    #[error("useless in the present view or window")]
    Useless,
    /// Signature, certificate or sender are wrong.
    #[error("failed verification: {0}")]
    Forged(&'static str),
}

/// Keys by membership epoch, view and window: enough to judge a message without the core.
pub trait Verifier<I>: Clone + Send + Sync {
    /// Judges one message of `from`, whose identity the link has proven. Pure; may take long (it runs in a pool).
    ///
    /// # Errors
    /// [`Rejected`].
    fn checks(&self, from: ReplicaId, incoming: &I) -> Result<(), Rejected>;
}

/// The verifier of a protocol that trusts its links: everything passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TrustedLinks;

impl<I> Verifier<I> for TrustedLinks {
    fn checks(&self, _from: ReplicaId, _incoming: &I) -> Result<(), Rejected> {
        Ok(())
    }
}

/// A message that passed its checks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Verified<I>(I);

impl<I> Verified<I> {
    /// Runs the checks; the only way to make one.
    ///
    /// # Errors
    /// [`Rejected`], with the message gone.
    pub fn check<V: Verifier<I>>(verifier: &V, from: ReplicaId, incoming: I) -> Result<Verified<I>, Rejected> {
        verifier.checks(from, &incoming)?;
        Ok(Verified(incoming))
    }

    /// The message.
    #[must_use]
    pub fn into_inner(self) -> I {
        self.0
    }
}
