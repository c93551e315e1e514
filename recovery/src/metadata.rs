//! The metadata: identity, members, snapshot, and the protocol's own latest metadata record.

use crate::error::RecoveryError;
use crate::format::{METADATA_VERSION, u32_at};
use crate::identity::{BootId, Identity};
use crate::replicated_settings::{ReplicatedSettings, setting_differences};
use quorate_framework::control::{self, CONTROL_BYTES};
use quorate_framework::{ClusterId, Encoded, Incarnation, MemberVector, ReplicaId, SnapshotBase};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The name of the metadata file.
pub const METADATA_FILE: &str = "metadata.dat";
/// The name under which it is written before it is renamed.
pub(crate) const METADATA_TEMPORARY: &str = "metadata.tmp";
const MAGIC: &[u8; 8] = b"QUORMETA";
/// Bytes before the body.
pub(crate) const METADATA_PREFIX_BYTES: usize = 20;
/// Bytes of the whole file at most.
pub(crate) const METADATA_BYTES: usize = METADATA_PREFIX_BYTES + CONTROL_BYTES;

/// A record in its coded form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredRecord {
    /// Its head.
    pub head: Vec<u8>,
    /// Its body.
    pub body: Vec<u8>,
}

impl From<&Encoded> for StoredRecord {
    fn from(encoded: &Encoded) -> StoredRecord {
        StoredRecord { head: encoded.head.to_vec(), body: encoded.body.concat() }
    }
}

/// What `metadata.dat` holds. It is the only authority for all of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// The cluster.
    pub cluster: ClusterId,
    /// The replica.
    pub replica: ReplicaId,
    /// The consensus protocol, by the name that selects it.
    pub protocol: String,
    /// What decides how entries are applied. Never changed: a log means what it means with these.
    pub replicated_settings: ReplicatedSettings,
    /// Drawn at random when the directory was made.
    pub incarnation: Incarnation,
    /// How many times this incarnation was started.
    pub start_counter: u64,
    /// The vector the cluster was formed on; none while it is forming.
    pub members: Option<MemberVector>,
    /// The snapshot the state begins with.
    pub snapshot: Option<SnapshotBase>,
    /// Which generation of the store belongs to the snapshot.
    pub store_generation: u64,
    /// Whether a log must be beside this file.
    pub log_exists: bool,
    /// Sequence of the first live group.
    pub first_group: u64,
    /// The protocol's latest metadata record.
    pub record: Option<StoredRecord>,
    /// The boot in which the replica last started.
    pub boot: BootId,
    /// Whether the log is synced while that start runs (`wal_sync: always`).
    pub log_is_synced: bool,
    /// Whether the last run ended by a clean stop.
    pub stopped_cleanly: bool,
}

impl Metadata {
    /// The metadata of a replica that never ran.
    #[must_use]
    pub fn new(identity: &Identity, incarnation: Incarnation) -> Metadata {
        Metadata {
            cluster: identity.cluster,
            replica: identity.replica,
            protocol: identity.protocol.clone(),
            replicated_settings: identity.replicated_settings.clone(),
            incarnation,
            start_counter: 0,
            members: None,
            snapshot: None,
            store_generation: 0,
            log_exists: false,
            first_group: 1,
            record: None,
            boot: BootId::default(),
            log_is_synced: true,
            stopped_cleanly: true,
        }
    }

    /// Whose data it is.
    #[must_use]
    pub fn identity(&self) -> Identity {
        Identity {
            cluster: self.cluster,
            replica: self.replica,
            protocol: self.protocol.clone(),
            replicated_settings: self.replicated_settings.clone(),
        }
    }

    /// The file's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; METADATA_PREFIX_BYTES];
        control::encode(self, &mut bytes);
        let length = (bytes.len() - METADATA_PREFIX_BYTES) as u32;
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&METADATA_VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&length.to_le_bytes());
        let checksum = checksum(&bytes);
        bytes[16..20].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads the file's bytes.
    ///
    /// # Errors
    /// [`RecoveryError::MetadataDamaged`] or [`RecoveryError::Version`].
    pub fn decode(bytes: &[u8]) -> Result<Metadata, RecoveryError> {
        let damaged = |reason: &str| Err(RecoveryError::MetadataDamaged { reason: reason.to_owned() });
        if bytes.len() < METADATA_PREFIX_BYTES || &bytes[..8] != MAGIC {
            return damaged("it does not begin like one");
        }
        if u32_at(bytes, 12) as usize != bytes.len() - METADATA_PREFIX_BYTES {
            return damaged("its length is not the one it names");
        }
        if u32_at(bytes, 16) != checksum(bytes) {
            return damaged("its CRC is wrong");
        }
        let found = u32_at(bytes, 8);
        if found != METADATA_VERSION {
            let file = PathBuf::from(METADATA_FILE);
            return Err(RecoveryError::Version { file, found, expected: METADATA_VERSION });
        }
        control::decode("metadata", &bytes[METADATA_PREFIX_BYTES..])
            .map_err(|error| RecoveryError::MetadataDamaged { reason: error.to_string() })
    }

    /// Checks whose data it is, and that entries are applied as before.
    ///
    /// # Errors
    /// [`RecoveryError::Foreign`], with both identities; [`RecoveryError::OtherSettings`], with each setting that differs.
    pub fn check_identity(&self, expected: &Identity) -> Result<(), RecoveryError> {
        let is_ours =
            self.cluster == expected.cluster && self.replica == expected.replica && self.protocol == expected.protocol;
        if !is_ours {
            let (found, expected) = (Box::new(self.identity()), Box::new(expected.clone()));
            return Err(RecoveryError::Foreign { file: PathBuf::from(METADATA_FILE), found, expected });
        }
        let differences = setting_differences(&self.replicated_settings, &expected.replicated_settings);
        if differences.is_empty() { Ok(()) } else { Err(RecoveryError::OtherSettings { differences }) }
    }
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..16]);
    hasher.update(&bytes[METADATA_PREFIX_BYTES..]);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_framework::Position;

    fn identity() -> Identity {
        let replicated_settings = ReplicatedSettings::from([("window".to_owned(), 3), ("a".to_owned(), 1 << 40)]);
        Identity {
            cluster: ClusterId([5; 16]),
            replica: ReplicaId(2),
            protocol: "raft".to_owned(),
            replicated_settings,
        }
    }

    fn metadata() -> Metadata {
        let snapshot = SnapshotBase { position: Position(7), protocol: vec![1], membership: vec![2, 3] };
        Metadata {
            members: Some(MemberVector::from([(ReplicaId(2), Incarnation(0x0b))])),
            snapshot: Some(snapshot),
            record: Some(StoredRecord { head: vec![9], body: vec![] }),
            ..Metadata::new(&identity(), Incarnation(0x0a))
        }
    }

    #[test]
    fn metadata_has_exactly_these_bytes() {
        let number = |value: u64| value.to_le_bytes().to_vec();
        let body = [
            vec![5; 16],
            vec![2, 0, 0, 0],
            number(4),
            b"raft".to_vec(),
            [number(2), number(1), b"a".to_vec(), number(1 << 40), number(6), b"window".to_vec(), number(3)].concat(),
            number(0x0a),
            number(0),
            [vec![1], number(1), vec![2, 0, 0, 0], number(0x0b)].concat(),
            [vec![1], number(7), number(1), vec![1], number(2), vec![2, 3]].concat(),
            number(0),
            vec![0],
            number(1),
            [vec![1], number(1), vec![9], number(0)].concat(),
            vec![0; 16],
            vec![1, 1],
        ]
        .concat();
        let start = [b"QUORMETA".to_vec(), vec![2, 0, 0, 0], (body.len() as u32).to_le_bytes().to_vec()].concat();
        let checksum = crc32fast::hash(&[start.clone(), body.clone()].concat());
        let expected = [start, checksum.to_le_bytes().to_vec(), body].concat();
        assert_eq!(metadata().encode(), expected);
        assert_eq!(Metadata::decode(&expected).unwrap(), metadata());
    }

    #[test]
    fn metadata_of_the_version_before_is_told_from_damage() {
        // A replica that never ran, as version 1 wrote it: without the settings.
        let body = [[5; 16].as_slice(), &[2, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0], b"raft", &[0; 66]].concat();
        let start = [b"QUORMETA".as_slice(), &[1, 0, 0, 0], &(body.len() as u32).to_le_bytes()].concat();
        let checksum = crc32fast::hash(&[start.as_slice(), &body].concat());
        let error = Metadata::decode(&[start.as_slice(), &checksum.to_le_bytes(), &body].concat()).unwrap_err();
        assert!(matches!(error, RecoveryError::Version { found: 1, expected: 2, .. }), "{error}");
        assert_eq!(
            error.to_string(),
            "metadata.dat has format version 1, this program reads version 2; use the version of this program that wrote it"
        );
    }

    #[test]
    fn any_flipped_bit_or_cut_of_metadata_is_refused() {
        let bytes = metadata().encode();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(Metadata::decode(&damaged), Err(RecoveryError::MetadataDamaged { .. })), "bit {bit}");
        }
        for end in 0..bytes.len() {
            assert!(matches!(Metadata::decode(&bytes[..end]), Err(RecoveryError::MetadataDamaged { .. })), "cut {end}");
        }
    }

    #[test]
    fn data_of_another_replica_cluster_or_protocol_is_refused_with_both_names() {
        let mut other = identity();
        other.replica = ReplicaId(3);
        let error = metadata().check_identity(&other).unwrap_err().to_string();
        let cluster = "05".repeat(16);
        assert_eq!(
            error,
            format!(
                "metadata.dat belongs to replica 2 of cluster {cluster} (raft), and this is replica 3 of cluster {cluster} (raft); \
                 put each file back where it belongs, or name another directory"
            )
        );
        assert!(metadata().check_identity(&Identity { cluster: ClusterId([6; 16]), ..identity() }).is_err());
        assert!(metadata().check_identity(&Identity { protocol: "pbft".to_owned(), ..identity() }).is_err());
        assert!(metadata().check_identity(&identity()).is_ok());
    }
}
