//! What is refused before a data directory is changed, and what is said of one that cannot be read.

use super::*;
use quorate_config::parse_cluster;
use quorate_framework::{Incarnation, LOST_DATA, TicketSequence};
use quorate_raft::RaftRecord;
use quorate_recovery::{MetadataChange, Submission};

/// A cluster file of these replicas, all of whose ports begin with this digit.
fn cluster(replicas: &[u32], digit: u32) -> ClusterConfig {
    let replica = |id: &u32| {
        let port = digit * 10_000 + 10 * id;
        format!(
            r#"{{ "id": {id}, "host": "127.0.0.1", "port": {port}, "http_port": {}, "resp_port": {} }}"#,
            port + 1,
            port + 2
        )
    };
    let replicas: Vec<String> = replicas.iter().map(replica).collect();
    let text = format!(
        r#"{{ "cluster_id": "000102030405060708090a0b0c0d0e0f", "wal_segment_bytes": 1048576, "replicas": [{}] }}"#,
        replicas.join(", ")
    );
    parse_cluster("test", text.as_bytes()).unwrap().config
}

/// The directory of replica 1 of a cluster that was formed.
fn formed_with(directory: &Path, replicas: &[u32]) {
    let cluster = cluster(replicas, 1);
    initialize::<RaftRecord>(directory, &identity(&cluster, ReplicaId(1))).unwrap();
    let beginning = open_in_memory_store::<RaftRecord>(directory, &cluster, ReplicaId(1)).unwrap();
    assert_eq!(beginning.members, None);
    drop(beginning);
    let vfs = DirectoryVfs::open(directory).unwrap();
    let options = StartOptions {
        identity: identity(&cluster, ReplicaId(1)),
        boot: current_boot(),
        settings: wal_settings(cluster.settings()),
        random: Box::new(rand::random::<u64>),
    };
    let mut pump = RecoveryBase::<RaftRecord>::open(Box::new(vfs), options).unwrap().pump;
    let members = replicas.iter().map(|id| (ReplicaId(*id), Incarnation(u64::from(*id)))).collect();
    let ticket = TicketSequence::default().next_ticket();
    pump.submit(Submission::metadata(ticket, MetadataChange::Members(members))).unwrap();
    while pump.run_group().unwrap().is_some() {}
    pump.stop().unwrap();
}

#[test]
fn the_replicas_of_the_cluster_file_must_be_those_of_a_formed_cluster_and_their_addresses_need_not() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path();
    formed_with(directory, &[1, 2, 3]);
    let before = fs::read(directory.join(METADATA_FILE)).unwrap();
    for (listed, said) in [(&[1][..], "lists 1."), (&[1, 2], "lists 1, 2."), (&[1, 2, 4], "lists 1, 2, 4.")] {
        let refused = open_in_memory_store::<RaftRecord>(directory, &cluster(listed, 1), ReplicaId(1)).unwrap_err();
        let formed = "the cluster was formed with replicas 1, 2, 3, and the cluster file ";
        assert!(refused.to_string().contains(&format!("{formed}{said}")), "{refused}");
        assert!(refused.reason.is_bad_input());
        assert_eq!(fs::read(directory.join(METADATA_FILE)).unwrap(), before);
    }
    let moved = open_in_memory_store::<RaftRecord>(directory, &cluster(&[3, 1, 2], 2), ReplicaId(1)).unwrap();
    assert_eq!(moved.members.unwrap().len(), 3);
}

#[test]
fn only_a_snapshot_that_is_missing_short_or_wrong_is_called_lost() {
    let position = Position(3);
    let said = |error| DurableReason::Snapshot { position, error }.to_string();
    let of_system = |kind: io::ErrorKind| said(SnapshotError::File { what: "reading a snapshot", source: kind.into() });
    for kind in [io::ErrorKind::NotFound, io::ErrorKind::UnexpectedEof] {
        assert!(of_system(kind).ends_with(LOST_DATA), "{}", of_system(kind));
    }
    assert!(said(SnapshotError::Foreign { what: "position" }).ends_with(LOST_DATA));
    let begin = "the snapshot at 3 that metadata.dat names cannot be read: reading a snapshot: ";
    for (kind, end) in [
        (io::ErrorKind::PermissionDenied, "permission denied; give this user the rights to it and try again"),
        (io::ErrorKind::Other, "other error; nothing is known of the data: look after the disk and try again"),
    ] {
        assert_eq!(of_system(kind), format!("{begin}{end}"));
    }
}
