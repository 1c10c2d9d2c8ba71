/** The vendor interface for characters in videos. */

/** A character to enroll. `image` is an http(s) URL, which only the vendor fetches. */
export type Enrolling = { readonly name: string; readonly image: string }

/** `rejected` says in our words why the vendor refuses the picture. */
export type Enrollment =
  | { readonly kind: 'enrolled'; readonly assetId: string }
  | { readonly kind: 'rejected'; readonly reason: string }

/**
 * A liveness check that has begun. `link` is the page for the person; without one, our `page` is used. `token` finds
 * the check from any process.
 */
export type FaceSession = { readonly token: string; readonly link?: string; readonly expiresInSeconds: number }

/** A person who has passed the check has a group, to which more pictures of the same face can be added. */
export type FaceState = { readonly kind: 'pending' } | { readonly kind: 'active'; readonly groupId: string }

/**
 * Enrolls characters with the video vendor: invented ones at once, real persons after a liveness check. Throws an
 * `ApiError` with a text for the caller.
 */
export interface PortraitVendor {
  /** The HTML page for the person, when the vendor has none of its own. */
  readonly page?: string
  enroll(character: Enrolling, at: { signal: AbortSignal }): Promise<Enrollment>
  session(name: string, at: { signal: AbortSignal }): Promise<FaceSession>
  status(token: string, at: { signal: AbortSignal }): Promise<FaceState>
  face(
    groupId: string,
    character: Enrolling,
    at: { signal: AbortSignal },
  ): Promise<Enrollment | { readonly kind: 'not_active' }>
}
