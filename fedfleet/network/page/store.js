// What the page remembers on this device: values by name in IndexedDB, which survive a closed or killed page.

const NAME = "fedfleet", VALUES = "values";

export class BrowserStore {
  static async open() {
    const store = new BrowserStore();
    store.database = await new Promise((resolve, reject) => {
      const request = indexedDB.open(NAME, 1);
      request.onupgradeneeded = () => request.result.createObjectStore(VALUES);
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => reject(request.error);
    });
    return store;
  }

  /** One operation, done when it is on the disk. */
  act(mode, action) {
    return new Promise((resolve, reject) => {
      const transaction = this.database.transaction(VALUES, mode, { durability: "strict" });
      const request = action(transaction.objectStore(VALUES));
      transaction.oncomplete = () => resolve(request.result);
      transaction.onabort = transaction.onerror = () => reject(transaction.error);
    });
  }

  get(name) {
    return this.act("readonly", (values) => values.get(name));
  }

  set(name, value) {
    return this.act("readwrite", (values) => values.put(value, name));
  }

  delete(name) {
    return this.act("readwrite", (values) => values.delete(name));
  }

  clear() {
    return this.act("readwrite", (values) => values.clear());
  }
}
