//! The speculating protocol on several replicas: frames as bytes, an executor with overlays, links that break.

use super::super::speculating::{Block, RESEND_INTERVAL, Speculating};
use super::*;
use quorate_framework::entry::EntryKind;
use quorate_framework::{Batch, ExecutorCommand};
use std::collections::BTreeMap;

/// An executor that knows nothing but order: its state is the list of blocks, its overlays the blocks above the committed ones.
#[derive(Default)]
struct OrderExecutor {
    blocks: Vec<BlockId>,
    committed: usize,
}

impl OrderExecutor {
    fn last(&self) -> BlockId {
        self.blocks.last().copied().unwrap_or_default()
    }

    fn answer(position: usize, batch: &Batch, kind: ReplyKind) -> Option<Answer> {
        let sequence = ClientFrame::parse(batch.payload.clone()).ok().map(|frame| frame.header.sequence)?;
        assert_eq!(batch.kind, EntryKind::Request);
        Some(Answer { block: batch.block, ..super::answer(position as u64, 0, sequence.0, kind) })
    }

    fn execute(&mut self, commands: Vec<ExecutorCommand>) -> Outcome {
        let mut answers = Vec::new();
        for command in commands {
            match command {
                ExecutorCommand::Speculate { base, range } => {
                    assert_eq!((base, range.first.0), (self.last(), self.blocks.len() as u64 + 1), "on the last block");
                    for batch in range.batches {
                        self.blocks.push(batch.block);
                        answers.extend(Self::answer(self.blocks.len(), &batch, ReplyKind::Speculative));
                    }
                }
                ExecutorCommand::Rollback { to } => {
                    assert!(to.0 as usize >= self.committed, "a rollback below the commit");
                    self.blocks.truncate(to.0 as usize);
                }
                ExecutorCommand::Execute { range, answers: wanted } => {
                    assert_eq!(range.first.0, self.committed as u64 + 1);
                    for batch in range.batches {
                        self.committed += 1;
                        assert_eq!(self.blocks[self.committed - 1], batch.block, "the overlay becomes permanent");
                        answers.extend(Self::answer(self.committed, &batch, ReplyKind::Committed).filter(|_| wanted));
                    }
                }
                ExecutorCommand::Read(_) | ExecutorCommand::Digest => panic!("not used"),
            }
        }
        Outcome { executed: Position(self.committed as u64), transactions: 0, answers, digest: None }
    }
}

struct Member {
    driver: Driver<Speculating>,
    executor: OrderExecutor,
    input: TurnInput,
    output: TurnOutput<Speculating>,
    /// Records handed out and not yet durable.
    unsynced: Vec<(Ticket, Block)>,
    durable: Vec<Block>,
    identity: Option<Ticket>,
}

/// Replicas 1 to n, of which 1 leads. A round is one turn of each; what it sends arrives in the next.
struct World {
    members: BTreeMap<u32, Member>,
    /// The link from the first to the second, if it is up.
    links: BTreeMap<(u32, u32), u64>,
    next_link: u64,
    now: Time,
    replies: Vec<ClientReply>,
}

fn member(replica: u32, count: u32, contest_every: u64, durability: Durability) -> Member {
    let settings = DriverSettings::new(durability);
    let core = Speculating::new(id(replica), contest_every);
    Member {
        driver: Driver::new(core, settings, forming(replica, count), Box::new(|| 7)),
        executor: OrderExecutor::default(),
        input: TurnInput::new(),
        output: TurnOutput::new(),
        unsynced: Vec::new(),
        durable: Vec::new(),
        identity: None,
    }
}

impl World {
    fn new(count: u32, contest_every: u64, durability: Durability) -> World {
        let members = (1..=count).map(|replica| (replica, member(replica, count, contest_every, durability))).collect();
        let mut world = World { members, links: BTreeMap::new(), next_link: 1, now: Time::ZERO, replies: Vec::new() };
        for one in 1..=count {
            (one + 1..=count).for_each(|other| world.connect(one, other));
        }
        (0..4).for_each(|_| world.round());
        world
    }

    fn connect(&mut self, one: u32, other: u32) {
        let link = self.next_link;
        self.next_link += 1;
        for (from, to) in [(one, other), (other, one)] {
            let claim = self.members[&from].driver.forming().claim();
            self.links.insert((from, to), link);
            let inbound = Inbound::PeerConnected { peer: id(from), link: LinkId(link), claim };
            self.members.get_mut(&to).unwrap().input.push(inbound);
        }
    }

    fn disconnect(&mut self, one: u32, other: u32) {
        for (from, to) in [(one, other), (other, one)] {
            let link = LinkId(self.links.remove(&(from, to)).unwrap());
            self.members.get_mut(&to).unwrap().input.push(Inbound::PeerDisconnected { peer: id(from), link });
        }
    }

    fn ask(&mut self, replica: u32, sequence: u64) {
        let inbound = Inbound::ClientRequest { connection: ConnectionId(1), frame: request(sequence) };
        self.members.get_mut(&replica).unwrap().input.push(inbound);
    }

    fn round(&mut self) {
        let mut sent: Vec<(u32, PeerFrame)> = Vec::new();
        for (replica, member) in &mut self.members {
            member.driver.turn(self.now, &mut member.input, &mut member.output);
            assert_eq!((&member.output.halt, member.output.disconnect.len()), (&None, 0));
            sent.extend(member.output.frames.drain(..).map(|frame| (*replica, frame)));
            // What was handed out a round ago is durable now.
            let due = member.unsynced.last().map(|(ticket, _)| *ticket).into_iter().chain(member.identity.take()).max();
            member.input.persisted = due;
            member.durable.extend(member.unsynced.drain(..).map(|(_, block)| block));
            member.unsynced.append(&mut member.output.records);
            member.identity = member.output.identity.drain(..).next_back().map(|(ticket, _)| ticket);
            let outcome = member.executor.execute(member.output.commands.drain(..).collect());
            member.driver.executed(outcome, &mut member.output);
            self.replies.append(&mut member.output.replies);
        }
        for (from, frame) in sent {
            for to in &frame.to {
                let Some(link) = self.links.get(&(from, to.0)) else { continue };
                let received = ReceivedFrame {
                    peer: id(from),
                    link: LinkId(*link),
                    lane: frame.lane,
                    class: frame.class,
                    head: frame.encoded.head.clone(),
                    body: Bytes::from(frame.encoded.body.concat()),
                };
                self.members.get_mut(&to.0).unwrap().input.push(Inbound::PeerFrame(received));
            }
        }
        self.now = self.now + RESEND_INTERVAL / 4;
    }

    fn rounds(&mut self, count: usize) {
        (0..count).for_each(|_| self.round());
    }

    /// Sequences of the committed blocks of a replica, 0 for those without an operation.
    fn committed(&self, replica: u32) -> Vec<u64> {
        let sequence = |block: &Block| {
            let payload = block.payload.clone()?;
            Some(ClientFrame::parse(payload).unwrap().header.sequence.0)
        };
        self.members[&replica].driver.core().committed().map(|block| sequence(block).unwrap_or(0)).collect()
    }

    fn replies_of(&self, kind: ReplyKind) -> Vec<(u64, Status)> {
        let of_kind = |reply: &&ClientReply| reply.header.kind == kind;
        self.replies.iter().filter(of_kind).map(|reply| (reply.header.sequence.0, reply.header.status)).collect()
    }
}

#[test]
fn three_replicas_speculate_answer_ahead_of_the_commit_and_execute_the_same_blocks() {
    for durability in [Durability::InMemory, Durability::External] {
        let mut world = World::new(3, 0, durability);
        (1..=5).for_each(|sequence| world.ask(1, sequence));
        world.ask(2, 9);
        world.rounds(8);
        for replica in 1..=3 {
            assert_eq!(world.committed(replica), [1, 2, 3, 4, 5], "replica {replica}, {durability:?}");
            assert_eq!(world.members[&replica].executor.committed, 5);
        }
        let ok = |sequence| (sequence, Status::Ok);
        assert_eq!(world.replies_of(ReplyKind::Speculative), [1, 2, 3, 4, 5].map(ok));
        assert_eq!(world.replies_of(ReplyKind::Committed), [(9, Status::NotLeader)], "no second answer");
        assert_eq!(world.replies.iter().find(|reply| reply.header.hint.is_some()).unwrap().header.hint, Some(id(1)));
    }
}

#[test]
fn a_contested_position_is_rolled_back_everywhere_and_its_requests_are_committed_behind_it() {
    for durability in [Durability::InMemory, Durability::External] {
        let mut world = World::new(3, 3, durability);
        (1..=4).for_each(|sequence| world.ask(1, sequence));
        world.rounds(12);
        for replica in 1..=3 {
            assert_eq!(world.committed(replica), [1, 2, 0, 3, 4], "replica {replica}, {durability:?}");
            assert_eq!(world.members[&replica].driver.core().rollbacks(), 1);
        }
        let mut answered: Vec<u64> = world.replies.iter().map(|reply| reply.header.sequence.0).collect();
        answered.sort_unstable();
        answered.dedup();
        assert_eq!(answered, [1, 2, 3, 4]);
        assert!(world.replies.iter().all(|reply| reply.header.status == Status::Ok));
        assert_eq!(world.members[&1].driver.status().admitted_frames, 0);
    }
}

#[test]
fn without_a_majority_nothing_is_committed_and_after_the_links_heal_everything_is() {
    let mut world = World::new(3, 4, Durability::External);
    world.disconnect(1, 2);
    world.disconnect(1, 3);
    (1..=6).for_each(|sequence| world.ask(1, sequence));
    world.rounds(12);
    assert_eq!((world.committed(1), world.committed(2)), (vec![], vec![]));
    world.connect(1, 2);
    world.rounds(30);
    assert_eq!(world.committed(1), [1, 2, 3, 0, 4, 5, 6]);
    assert_eq!((world.committed(2), world.committed(3)), (world.committed(1), vec![]));
    world.connect(1, 3);
    world.rounds(30);
    assert_eq!(world.committed(3), world.committed(1));
}

#[test]
fn a_replica_that_restarts_with_its_records_rejoins_and_one_that_lost_them_is_not_counted() {
    for keeps in [true, false] {
        let mut world = World::new(3, 3, Durability::External);
        (1..=4).for_each(|sequence| world.ask(1, sequence));
        world.rounds(16);
        world.disconnect(1, 3);
        world.disconnect(2, 3);
        world.round();
        let before = world.members.remove(&3).unwrap();
        let mut after = member(3, 3, 3, Durability::External);
        let vector = before.driver.forming().vector().cloned();
        let mut state = Vec::new();
        before.durable.into_iter().for_each(|block| block.replay(&mut state).unwrap());
        let life = if keeps { 0 } else { 1 };
        let restarted = MemberClaim { start_counter: 2, start_nonce: 5_000, ..claim(3, life) };
        let seed = (1..=3).map(id).collect();
        let forming = Forming::new(id(3), restarted, seed, vector.filter(|_| keeps));
        let settings = DriverSettings::new(Durability::External);
        after.driver = Driver::new(Speculating::new(id(3), 3), settings, forming, Box::new(|| 7));
        if keeps {
            after.driver = after.driver.with_recovered(state);
        }
        world.members.insert(3, after);
        world.connect(1, 3);
        world.connect(2, 3);
        world.ask(1, 5);
        world.rounds(30);
        let expected = [1, 2, 0, 3, 4, 0, 5];
        assert_eq!(world.committed(1), expected);
        assert_eq!(world.committed(3), if keeps { expected.to_vec() } else { vec![] });
        let unbound = world.members[&1].driver.status().unbound_peers;
        assert_eq!(unbound, if keeps { vec![] } else { vec![id(3)] });
    }
}
