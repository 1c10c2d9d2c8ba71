/** Who makes characters known to the vendor of videos. */

/** A character to be known to a vendor. `image` is http(s), and only the vendor ever fetches it on its behalf. */
export type Enrolling = { readonly name: string; readonly image: string }

/** `rejected` says in our words why the vendor does not take the picture. */
export type Enrollment =
  | { readonly kind: 'enrolled'; readonly assetId: string }
  | { readonly kind: 'rejected'; readonly reason: string }

/**
 * A check of a living person that has begun. `link` is where the person goes; absent, to `page`. `token` asks after it
 * from any process.
 */
export type FaceSession = { readonly token: string; readonly link?: string; readonly expiresInSeconds: number }

/** A person who has passed the check has a group, to which pictures of the same face can be added. */
export type FaceState = { readonly kind: 'pending' } | { readonly kind: 'active'; readonly groupId: string }

/**
 * Makes characters known to the vendor of videos: invented ones at once, real persons after they have shown themselves.
 * Throws an `ApiError` for what the caller should hear of.
 */
export interface PortraitVendor {
  /** The page that people are sent to where the vendor has none of its own, as HTML. */
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
