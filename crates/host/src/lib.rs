// SPDX-License-Identifier: GPL-2.0-only
//! What runs on the host: guests under KVM, and the counting of their exits.
