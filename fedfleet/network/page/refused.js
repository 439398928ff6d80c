/** What this device will not or cannot do; the text says why, and both the owner and the server read it. */
export class Refused extends Error {}
