/** Characters on devnet: enrolled here and nowhere else. Nobody looks at a picture, and nobody is checked; the page says so. */
import { sha256 } from '@noble/hashes/sha256'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils'
import type { PortraitVendor } from '../../../core/mod.ts'

const LINK_SECONDS = 120

const PAGE = `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>No liveness check on devnet</title>
<h1>No liveness check is done on devnet</h1>
<p>On a gateway with a vendor, this link opens a check of about one minute that a living person is in front of the camera.
This gateway looks at no camera and at no face, and counts every check as passed at once.</p>
<p>You can close this page, and finish with <code>POST /api/v1/realface/enroll</code>.</p>
</html>
`

/** The same picture has the same asset id, and a token the same group, in any process. `random` makes tokens. */
export function demoCharacters({ random }: { random(bytes: number): Uint8Array }): PortraitVendor {
  return {
    page: PAGE,
    async enroll({ image }, { signal }) {
      signal.throwIfAborted()
      return { kind: 'enrolled', assetId: named('asset', image) }
    },
    async session(_name, { signal }) {
      signal.throwIfAborted()
      return { token: `local-${bytesToHex(random(16))}`, expiresInSeconds: LINK_SECONDS }
    },
    async status(token, { signal }) {
      signal.throwIfAborted()
      return { kind: 'active', groupId: named('group', token) }
    },
    async face(_group, { image }, { signal }) {
      signal.throwIfAborted()
      return { kind: 'enrolled', assetId: named('asset', image) }
    },
  }
}

const named = (kind: string, what: string): string =>
  `local-${kind}-${bytesToHex(sha256(utf8ToBytes(what))).slice(0, 24)}`
