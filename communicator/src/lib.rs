//! Frames, handshake, peer and client connections over TCP
