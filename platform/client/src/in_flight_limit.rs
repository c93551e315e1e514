//! How many requests a busy leader is given at a time.
//!
//! Without a refusal there is no limit. `Busy` says that what is out now is what the leader holds of ours: that becomes the limit, so
//! that refused requests wait here and do not come back in vain, each with a pause of its own, while the leader has room again. Answers raise it by
//! one for every so many as it allows (the additive increase of TCP's congestion avoidance), which finds out again and again whether there is more.

/// A limit on requests that were sent and are not answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InFlightLimit {
    sent: usize,
    limit: Option<usize>,
    /// Answers since the limit was last changed.
    answers: usize,
}

impl InFlightLimit {
    /// Whether another request may be sent. With none out it always may.
    pub(crate) fn has_room(&self) -> bool {
        self.limit.is_none_or(|limit| self.sent < limit)
    }

    /// Whether nothing is out.
    pub(crate) fn is_idle(&self) -> bool {
        self.sent == 0
    }

    /// A request is sent.
    pub(crate) fn sent(&mut self) {
        self.sent += 1;
    }

    /// One that was sent is no longer out, however that came.
    pub(crate) fn returned(&mut self) {
        debug_assert!(self.sent > 0, "what returns was sent");
        self.sent = self.sent.saturating_sub(1);
    }

    /// The one that has just returned was refused as one too many. `most` is what the client ever has out.
    pub(crate) fn refused(&mut self, most: usize) {
        let limit = self.limit.unwrap_or(most).min(self.sent).max(1);
        (self.limit, self.answers) = (Some(limit), 0);
    }

    /// The one that has just returned was executed. A limit that reaches `most` limits nothing and goes.
    pub(crate) fn answered(&mut self, most: usize) {
        let Some(limit) = self.limit else { return };
        self.answers += 1;
        if self.answers >= limit {
            self.answers = 0;
            self.limit = Some(limit + 1).filter(|limit| *limit < most);
        }
    }

    /// Another replica leads: nothing is known of it.
    pub(crate) fn forget(&mut self) {
        (self.limit, self.answers) = (None, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_sent(count: usize) -> InFlightLimit {
        let mut limit = InFlightLimit::default();
        (0..count).for_each(|_| limit.sent());
        limit
    }

    #[test]
    fn a_refusal_limits_to_what_is_out_and_answers_raise_it_by_one_for_every_so_many() {
        let mut limit = with_sent(6);
        for _ in 0..2 {
            limit.returned();
            limit.refused(100);
        }
        assert!(!limit.has_room(), "four are out, and four may be");
        for answer in 1..=4 {
            limit.returned();
            limit.answered(100);
            assert!(limit.has_room());
            limit.sent();
            assert_eq!(limit.has_room(), answer == 4, "after {answer} answers");
        }
    }

    #[test]
    fn one_may_always_be_out_and_a_limit_that_reaches_the_most_is_gone() {
        let mut limit = with_sent(1);
        limit.returned();
        limit.refused(3);
        assert!(limit.has_room());
        limit.sent();
        assert!(!limit.has_room());
        limit.returned();
        limit.answered(3);
        limit.sent();
        assert!(limit.has_room(), "two may be out");
        for _ in 0..2 {
            limit.answered(3);
        }
        (0..100).for_each(|_| limit.sent());
        assert!(limit.has_room());
    }

    #[test]
    fn of_another_leader_nothing_is_known() {
        let mut limit = with_sent(2);
        limit.returned();
        limit.refused(100);
        assert!(!limit.has_room());
        limit.forget();
        assert!(limit.has_room());
    }
}
